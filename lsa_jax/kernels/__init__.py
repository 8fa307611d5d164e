"""Kernels of networks at finite and infinite width, their Gram matrices, and exact regression."""

from lsa_jax.kernels.finite.expansion import linearize, linearize_on
from lsa_jax.kernels.finite.layer_gradients import (
    LayerGradients,
    last_layer_inputs,
    layer_gradients,
    leaf_names,
)
from lsa_jax.kernels.finite.monte_carlo import MonteCarlo, monte_carlo_kernel
from lsa_jax.kernels.finite.ntk import empirical_ntk, finite_kernel
from lsa_jax.kernels.finite.taylor import taylor_expand
from lsa_jax.kernels.infinite.kernel import InfiniteKernel, infinite_kernel, infinite_of
from lsa_jax.kernels.learned.outer_product import average_gradient_outer_product
from lsa_jax.kernels.learned.recursive import FeatureMachine, recursive_feature_machine
from lsa_jax.kernels.matrices.gram import gram
from lsa_jax.kernels.matrices.job import Workers
from lsa_jax.kernels.matrices.packed import PackedMatrix
from lsa_jax.kernels.matrices.shards import ShardedRows
from lsa_jax.kernels.solve.conjugate_gradients import IterativeRegression, regress_cg
from lsa_jax.kernels.solve.cost import Choice, choose_solver
from lsa_jax.kernels.solve.ensemble import ensemble_mean
from lsa_jax.kernels.solve.iterative_path import LeaveOneOut, leave_one_out_cg, ridge_path_cg
from lsa_jax.kernels.solve.nystrom import NystromRegression, regress_nystrom
from lsa_jax.kernels.solve.plan import Hosts, Plan, plan
from lsa_jax.kernels.solve.posterior import Posterior, posterior
from lsa_jax.kernels.solve.regression import Regression, fitted_weights, regress, select_ridge
from lsa_jax.kernels.solve.spectral import (
    Flow,
    Spectrum,
    eigendecompose,
    gradient_flow,
    leave_one_out,
    leave_one_out_ridge,
    ridge_path,
)
from lsa_jax.kernels.solve.stream import Stream

__all__ = [
    "Choice",
    "FeatureMachine",
    "Flow",
    "Hosts",
    "InfiniteKernel",
    "IterativeRegression",
    "LayerGradients",
    "LeaveOneOut",
    "MonteCarlo",
    "NystromRegression",
    "PackedMatrix",
    "Plan",
    "Posterior",
    "Regression",
    "ShardedRows",
    "Spectrum",
    "Stream",
    "Workers",
    "average_gradient_outer_product",
    "choose_solver",
    "eigendecompose",
    "empirical_ntk",
    "ensemble_mean",
    "finite_kernel",
    "fitted_weights",
    "gradient_flow",
    "gram",
    "infinite_kernel",
    "infinite_of",
    "last_layer_inputs",
    "layer_gradients",
    "leaf_names",
    "leave_one_out",
    "leave_one_out_cg",
    "leave_one_out_ridge",
    "linearize",
    "linearize_on",
    "monte_carlo_kernel",
    "plan",
    "posterior",
    "recursive_feature_machine",
    "regress",
    "regress_cg",
    "regress_nystrom",
    "ridge_path",
    "ridge_path_cg",
    "select_ridge",
    "taylor_expand",
]
