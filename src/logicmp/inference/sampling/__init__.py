"""Markov chains: Gibbs sampling and MC-SAT."""
