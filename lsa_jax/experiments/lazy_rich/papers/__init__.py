"""Networks, fixed kernels and kernels that learn, on the papers' own data."""
