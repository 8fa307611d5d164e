"""Kernels of networks at finite and infinite width, their Gram matrices, and exact regression."""

from lsa_jax.kernels.finite.expansion import linearize, linearize_on, taylor_expand
from lsa_jax.kernels.finite.layer_gradients import (
    LayerGradients,
    last_layer_inputs,
    layer_gradients,
    layer_inputs,
    leaf_names,
)
from lsa_jax.kernels.finite.monte_carlo import MonteCarlo, monte_carlo_kernel
from lsa_jax.kernels.finite.ntk import empirical_ntk, finite_kernel
from lsa_jax.kernels.infinite.kernel import InfiniteKernel, infinite_of
from lsa_jax.kernels.infinite.quadrature import check_duals
from lsa_jax.kernels.learned.outer_product import average_gradient_outer_product
from lsa_jax.kernels.learned.recursive import FeatureMachine, recursive_feature_machine
from lsa_jax.kernels.matrices.gram import Workers, gram
from lsa_jax.kernels.matrices.sharded import PackedMatrix, ShardedRows
from lsa_jax.kernels.solve.conjugate_gradients import (
    IterativeRegression,
    LeaveOneOut,
    leave_one_out_cg,
    regress_cg,
    ridge_path_cg,
)
from lsa_jax.kernels.solve.nystrom import NystromRegression, Stream, regress_nystrom
from lsa_jax.kernels.solve.prediction import (
    LearningCurve,
    kernel_alignment_risk,
    modes,
    predict_learning_curve,
)
from lsa_jax.kernels.solve.regression import (
    Choice,
    Posterior,
    Regression,
    choose_solver,
    posterior,
    regress,
)
from lsa_jax.kernels.solve.spectral import (
    Flow,
    Spectrum,
    eigendecompose,
    ensemble_mean,
    gradient_flow,
    leave_one_out,
    leave_one_out_ridge,
    ridge_path,
)

__all__ = [
    "Choice",
    "FeatureMachine",
    "Flow",
    "InfiniteKernel",
    "IterativeRegression",
    "LayerGradients",
    "LearningCurve",
    "LeaveOneOut",
    "MonteCarlo",
    "NystromRegression",
    "PackedMatrix",
    "Posterior",
    "Regression",
    "ShardedRows",
    "Spectrum",
    "Stream",
    "Workers",
    "average_gradient_outer_product",
    "check_duals",
    "choose_solver",
    "eigendecompose",
    "empirical_ntk",
    "ensemble_mean",
    "finite_kernel",
    "gradient_flow",
    "gram",
    "infinite_of",
    "kernel_alignment_risk",
    "last_layer_inputs",
    "layer_gradients",
    "layer_inputs",
    "leaf_names",
    "leave_one_out",
    "leave_one_out_cg",
    "leave_one_out_ridge",
    "linearize",
    "linearize_on",
    "modes",
    "monte_carlo_kernel",
    "posterior",
    "predict_learning_curve",
    "recursive_feature_machine",
    "regress",
    "regress_cg",
    "regress_nystrom",
    "ridge_path",
    "ridge_path_cg",
    "taylor_expand",
]
