"""A world in compiled loops: what search and sampling share."""
