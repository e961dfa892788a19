"""Losses, constrained layers, distillation and decoding from rules.  Room: layer, inference -> **constrain** -> cli."""
