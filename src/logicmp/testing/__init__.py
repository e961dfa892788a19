"""Random theories, random models and inheritable tests.  Room: all up to inference, oracle -> **testing**."""
