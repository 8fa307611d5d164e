"""Hierarchical signals: a ResNet against other networks and kernels."""
