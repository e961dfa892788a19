"""Losses, constrained layers and decoding from rules.  Room: layer, inference -> **constrain** -> cli."""
