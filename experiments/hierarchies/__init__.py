"""Labels in a hierarchy: the data sets and the protocol of C-HMCNN (NeurIPS 2020)."""
