"""Loopy belief propagation, plain and lifted."""
