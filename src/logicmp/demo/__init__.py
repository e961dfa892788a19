"""The tour of `logicmp demo`.  Room: show -> **demo** -> cli."""
