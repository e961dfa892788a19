"""Relational graphs: Smoke, Kinship, UW-CSE, Cora (the paper's Table "AUC-PR on Kinship, UW-CSE, and Cora")."""
