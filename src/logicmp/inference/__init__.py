"""A problem to probabilities, by any of the methods.  Room: ground, execute -> **inference** -> learning, cli."""
