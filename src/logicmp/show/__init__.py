"""Results as people read them: text, JSON, CSV, progress, pictures.  Room: inference -> **show** -> demo, cli."""
