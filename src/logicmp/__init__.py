"""LogicMP: first-order logic rules as a PyTorch layer and a command line.

    import logicmp
    theory = logicmp.parse_theory("1.5 Smokes(x) ^ Friends(x,y) => Smokes(y)")
    print(logicmp.normalize(theory))

Importing this does not import torch.
"""

from .errors import CostError, LogicMPError, RuleError
from .normalize import normalize
from .parse import Facts, Theory, load_facts, load_theory, parse_facts, parse_theory

__version__ = "0.1.0"
__all__ = [
    "CostError", "Facts", "LogicMPError", "RuleError", "Theory",
    "load_facts", "load_theory", "normalize", "parse_facts", "parse_theory",
]
