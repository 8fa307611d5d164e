"""Tangent kernels of networks as they are: derivatives, linearisation, layer by layer."""
