"""A world and rules to rows and a ground network, in numpy.  Room: facts, normalize -> **ground** -> inference."""
