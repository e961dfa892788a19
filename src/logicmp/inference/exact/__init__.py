"""Exact inference by variable elimination."""
