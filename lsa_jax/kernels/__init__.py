"""Kernels of networks at finite and infinite width, their Gram matrices, and exact regression."""

from lsa_jax.kernels.finite import finite_ntk, linearize
from lsa_jax.kernels.gram import gram
from lsa_jax.kernels.infinite import infinite_kernel
from lsa_jax.kernels.regression import Regression, regress, select_ridge

__all__ = [
    "Regression",
    "finite_ntk",
    "gram",
    "infinite_kernel",
    "linearize",
    "regress",
    "select_ridge",
]
