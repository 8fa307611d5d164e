"""The Gaussian process that a network of infinite width is, conditioned on data."""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from lsa_jax import arrays
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.solve import blocks, cholesky, problem
from lsa_jax.kernels.solve.cholesky import Factor

# A variance below 0 by more than this share of its prior value is no rounding of a float32 kernel.
_LARGEST_NEGATIVE = 1e-3


class Posterior(NamedTuple):
    """Outputs on the test examples, given the training examples.

    Attributes:
        mean: [m, c], float64.
        covariance: [m] variances or [m, m] covariances, the same for every target, without noise.
        ridge: ridge over the mean diagonal that was used.
        condition: estimated condition number (1-norm) of the matrix that was solved.
    """

    mean: Float[np.ndarray, "m c"]
    covariance: Float[np.ndarray, " m"] | Float[np.ndarray, "m m"]
    ridge: float
    condition: float


def posterior(
    gram_train: Float[Array | np.ndarray, "n n"],
    targets: Float[Array | np.ndarray, "n c"],
    gram_test: Float[Array | np.ndarray, "m n"],
    prior: Float[Array | np.ndarray, " m"] | Float[Array | np.ndarray, "m m"],
    *,
    ridge: float,
) -> Posterior:
    """Conditions a Gaussian process of mean 0 and covariance K on targets with noise.

    With N = ridge trace(K)/n, the variance of the noise,

        mean = K_test (K + N I)^{-1} Y
        covariance = K_test,test - K_test (K + N I)^{-1} K_test^T.

    O(n^3 + n^2 m) time; 8 n (n + m) bytes beside the inputs, and 8 m^2 more for all covariances.

    Args:
        gram_train: K, the "nngp" kernel of the training examples.
        targets: Y; no mean is taken out.
        gram_test: K_test, test against training examples.
        prior: the kernel of the test examples: its diagonal, for variances, or all of it.
        ridge: variance of the noise over the mean diagonal of K, 0 or more.

    Raises:
        InputError: sizes that do not fit each other or the memory, a K that is not symmetric, or a
            negative ridge.
        NumericalError: entries that are not finite, a matrix that is not positive definite, or
            variances that are negative beyond rounding.

    Source: Lee et al., Deep neural networks as Gaussian processes, 2018, eq. 8 and 9.
    """
    gram_train = problem.matrix("gram_train", gram_train)
    targets = problem.targets_of(targets)
    gram_test = problem.matrix("gram_test", gram_test)
    prior = np.asarray(arrays.real_array("prior", prior, empty=True))
    ridge = problem.check_ridge(ridge)
    problem.check(gram_train, targets, gram_test)
    n, m = len(gram_train), len(gram_test)
    if prior.shape not in ((m,), (m, m)):
        raise InputError(
            f"prior is {prior.shape}; accepted with {m} test examples: ({m},), ({m}, {m})"
        )
    if not np.isfinite(prior).all():
        raise NumericalError("prior has entries that are not finite; check the kernel")
    needed = 8 * (n * (n + m) + (prior.size if prior.ndim == 2 else 0))
    problem.check_memory(n, needed, "test examples a part at a time")
    factor = cholesky.factorize(gram_train, ridge)
    if factor is None:
        relative = scipy.linalg.eigvalsh(gram_train.astype(float), subset_by_index=[0, 0])[0]
        relative /= np.trace(gram_train, dtype=float) / n
        raise problem.not_positive_definite(n, ridge, relative)
    mean = blocks.multiply(gram_test, cholesky.solve(factor, targets.astype(float)))
    covariance = _covariance(factor, gram_test, prior)
    return Posterior(mean, covariance, ridge, factor.condition)


def _covariance(factor: Factor, gram_test: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Returns variances or covariances, as the prior has them."""
    half = scipy.linalg.solve_triangular(
        factor.lower, gram_test.T.astype(float), lower=True, overwrite_b=True, check_finite=False
    )
    if prior.ndim == 1:
        variances = prior - np.einsum("ij,ij->j", half, half)
        _check_variances(variances, prior, factor.condition)
        return np.maximum(variances, 0.0)
    covariance = half.T @ half
    np.subtract(prior, covariance, out=covariance)
    _check_variances(np.diagonal(covariance), np.diagonal(prior), factor.condition)
    return covariance


def _check_variances(variances: np.ndarray, prior: np.ndarray, condition: float) -> None:
    worst = np.min(variances + _LARGEST_NEGATIVE * np.abs(prior), initial=0.0)
    if worst < 0:
        raise NumericalError(
            f"{np.sum(variances < 0)} of {len(variances)} variances are negative, down to "
            f"{variances.min():.2g}, with condition number {condition:.2g}; use a larger ridge, "
            "and check that gram_train, gram_test and prior come from the same kernel and examples"
        )
