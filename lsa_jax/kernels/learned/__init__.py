"""Kernels that learn features from the data, without any network."""
