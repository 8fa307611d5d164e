"""Limits of kernels of few features (theorem 2)."""
