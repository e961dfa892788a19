"""Facts to a world: observed and unobserved atoms.  Room: parse -> **facts** -> ground."""
