"""The paper's tables, figures and ablations: users of the package, outside the wheel."""
