"""Facts to a world: what is observed, and what is open.  Room: parse -> **facts** -> ground."""
