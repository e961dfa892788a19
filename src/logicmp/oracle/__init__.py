"""Slow, obvious inference straight from Eq. 1-3: tests compare everything else with it.

Room: errors, parse -> **oracle** -> testing.  It imports nothing else of the package.
"""

from .cnf import SEMANTICS, clauses
from .mean_field import elbo, expected_violations, mean_field_step
from .worlds import best_world, count_models, exact_marginals, log_partition

__all__ = [
    "SEMANTICS", "best_world", "clauses", "count_models", "elbo", "exact_marginals", "expected_violations",
    "log_partition", "mean_field_step",
]
