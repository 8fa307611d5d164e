"""The theory of a sparse signal: networks, exact gradients, the population loss."""
