"""What infinitely wide networks predict on average, from a kernel and data in one call."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Shaped

from lsa_jax import arrays
from lsa_jax.kernels.matrices.gram import gram
from lsa_jax.kernels.solve import problem
from lsa_jax.kernels.solve.spectral import eigendecompose, gradient_flow


def ensemble_mean(
    kernel: Callable[..., Array],
    inputs: Shaped[Array | np.ndarray, "n ..."],
    targets: Float[Array | np.ndarray, "n c"],
    test_inputs: Shaped[Array | np.ndarray, "m ..."],
    *,
    time: float = np.inf,
    ridge: float = 0.0,
    **options: Any,
) -> Float[np.ndarray, "m c"]:
    """Returns the mean over initialisations of wide networks trained by gradient flow until t.

    Outputs start with mean 0, so it is the flow of `gradient_flow` from there; see it for the loss
    and the scale of time. To look at several times, or at many ridges, take `gram` and
    `eigendecompose` once, and then `gradient_flow` or `ridge_path`.

    O(n^3) time for the decomposition beside the kernel's; memory for both matrices.

    Args:
        kernel: `model.ntk` where all layers are trained, `model.nngp` where the last one alone is.
        inputs: training examples.
        targets: of them; their mean is not taken out.
        test_inputs: examples to predict.
        time: learning rate times steps; infinity is training to the end.
        ridge: added to the kernel, over its mean diagonal: weight decay towards the start.
        options: of `gram`: where to compute, how much memory.

    Raises:
        InputError: what `gram` and `gradient_flow` refuse.
        NumericalError: likewise; at infinite time a kernel that is singular.

    Source: Lee et al., Wide neural networks of any depth evolve as linear models, 2019, eq. 14;
    `neural_tangents.predict.gradient_descent_mse_ensemble` computes the same.
    """
    inputs = arrays.real_array("inputs", inputs, "n ...")
    test_inputs = arrays.real_array("test_inputs", test_inputs, "m ...")
    targets = problem.targets_of(targets)
    problem.check_targets(len(inputs), targets)
    spectrum = eigendecompose(gram(kernel, inputs, **options))
    gram_test = gram(kernel, test_inputs, inputs, **options)
    return gradient_flow(spectrum, targets, gram_test, [time], ridge=ridge).test[0]
