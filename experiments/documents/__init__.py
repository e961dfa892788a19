"""FUNSD: the blocks of a page as equivalence classes of its words."""
