"""Kernels of infinitely wide networks: exact recursions over their layers, in tiles."""
