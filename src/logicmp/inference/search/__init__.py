"""Searching for worlds: a start that satisfies the hard rules, and the most probable world."""
