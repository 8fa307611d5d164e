"""What is done with a kernel matrix: regression, posterior, spectrum, gradient flow."""
