"""Lazy or rich: networks and kernels that learn features, on the data of all papers."""
