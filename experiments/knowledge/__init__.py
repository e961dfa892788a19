"""Link prediction in a knowledge graph: rules, an embedding model, and the rules on top of it."""
