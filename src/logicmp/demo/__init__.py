"""The example pages of `logicmp demo`.  Room: show -> **demo** -> cli."""
