"""Matrices of kernels: in tiles that fit memory, on every device, kept in files."""
