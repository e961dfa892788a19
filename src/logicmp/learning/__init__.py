"""Learn rule weights from data.  Room: execute, inference -> **learning** -> cli."""
