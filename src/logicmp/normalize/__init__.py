"""A theory to signed sums of products of literals.  Room: parse -> **normalize** -> ground, plan."""
