"""Kernels of networks at finite and infinite width, their Gram matrices, and exact regression."""

from lsa_jax.kernels.finite.expansion import linearize, linearize_on
from lsa_jax.kernels.finite.layer_gradients import (
    LayerGradients,
    last_layer_inputs,
    layer_gradients,
    leaf_names,
)
from lsa_jax.kernels.finite.ntk import empirical_ntk, finite_kernel
from lsa_jax.kernels.infinite.kernel import infinite_kernel
from lsa_jax.kernels.matrices.gram import gram
from lsa_jax.kernels.matrices.job import Workers
from lsa_jax.kernels.solve.conjugate_gradients import IterativeRegression, regress_cg
from lsa_jax.kernels.solve.posterior import Posterior, posterior
from lsa_jax.kernels.solve.regression import Regression, regress, select_ridge
from lsa_jax.kernels.solve.spectral import (
    Flow,
    Spectrum,
    eigendecompose,
    gradient_flow,
    leave_one_out,
    leave_one_out_ridge,
    ridge_path,
)

__all__ = [
    "Flow",
    "IterativeRegression",
    "LayerGradients",
    "Posterior",
    "Regression",
    "Spectrum",
    "Workers",
    "eigendecompose",
    "finite_kernel",
    "empirical_ntk",
    "gradient_flow",
    "gram",
    "infinite_kernel",
    "last_layer_inputs",
    "layer_gradients",
    "leaf_names",
    "leave_one_out",
    "leave_one_out_ridge",
    "linearize",
    "linearize_on",
    "posterior",
    "ridge_path",
    "regress",
    "regress_cg",
    "select_ridge",
]
