"""Random theories, random models and batteries of tests, for tests and benchmarks."""
