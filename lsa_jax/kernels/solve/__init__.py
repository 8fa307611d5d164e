"""Uses of a kernel matrix: regression, posterior, spectrum, gradient flow."""
