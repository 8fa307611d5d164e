"""Solutions of least norm: made by hand, and found by search."""
