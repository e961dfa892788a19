"""CoNLL-2003 under rules: the paper's Table "Comparison of F1 on CoNLL2003"."""
