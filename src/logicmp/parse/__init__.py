"""Text to a checked theory.  Room: errors, files -> **parse** -> facts, normalize."""
