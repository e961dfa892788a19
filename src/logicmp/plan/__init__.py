"""Cubes and sizes to a plan of contractions.  Room: normalize -> **plan** -> execute."""
