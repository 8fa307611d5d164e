"""Learning curves of kernel regression, predicted from the spectrum and the targets.

With eigenvalues l_i of the kernel over the distribution of inputs, coefficients v_i of the targets
on the eigenfunctions, n examples and a ridge d (added to the kernel matrix), kappa solves

    sum_i L_i + d / kappa = n,    L_i = l_i / (l_i + kappa),

and the mean squared error is n / (n - sum_i L_i^2) times sum_i (1 - L_i)^2 v_i^2. Exact as n grows
where eigenfunctions at random inputs behave as independent Gaussian numbers.

A pool of N examples, from which n are drawn without replacement, has eigenvectors in place of
eigenfunctions. Where these are those of a random rotation, with w = d / (N kappa) the equation is

    (1 - w) sum_i L_i + N w = n,

by the additive free convolution of a projection and d / K; N to infinity gives the first one. The
errors follow from the derivatives of w (`predict_learning_curve`).

Sources: Bordelon, Canatar and Pehlevan, Spectrum dependent learning curves in kernel regression and
wide neural networks, 2020; Simon et al., The eigenlearning framework, 2023, in whose notation it
is. The equations of a pool are derived here, and tested on random rotations.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Array, Float

from lsa_jax import arrays
from lsa_jax.checks import integer, optional, require
from lsa_jax.errors import InputError
from lsa_jax.kernels.solve import problem
from lsa_jax.kernels.solve.spectral import Spectrum

# As rounding of a float32 kernel may make them, over the sum of all.
_LARGEST_NEGATIVE = 1e-3


class LearningCurve(NamedTuple):
    """Predicted errors: squared distances, summed over outputs, means over examples.

    `kappa` [s] is the threshold below which modes are not learned; `learnabilities` [s, p] are the
    shares of the modes of the targets that are recovered on average. The errors [s] are on the n
    training examples (`train`), on the other examples of the pool or of the distribution (`test`),
    and on all of the pool (`whole`); without a pool `whole` equals `test`.
    """

    kappa: Float[np.ndarray, " s"]
    learnabilities: Float[np.ndarray, "s p"]
    train: Float[np.ndarray, " s"]
    test: Float[np.ndarray, " s"]
    whole: Float[np.ndarray, " s"]


def modes(
    spectrum: Spectrum, targets: Float[Array | np.ndarray, "_n c"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n c"]]:
    """Returns the eigenvalues of K / N, ascending, and the targets' coefficients on its modes.

    Args:
        spectrum: of the kernel matrix of a pool of N examples.
        targets: of the pool. Centre them for a prediction of errors over their variance.

    Raises:
        InputError: there are other numbers of targets than examples.
        NumericalError: targets that are not finite.
    """
    targets, n = problem.targets_of(targets), len(spectrum.values)
    problem.check_targets(n, targets)
    return np.maximum(spectrum.values, 0.0) / n, spectrum.vectors.T @ targets / np.sqrt(n)


def predict_learning_curve(
    eigenvalues: Float[Array | np.ndarray, " p"],
    coefficients: Float[Array | np.ndarray, "_p c"],
    ns: Sequence[int],
    ridge: float = 0.0,
    *,
    pool: int | None = None,
) -> LearningCurve:
    """Predicts errors of kernel ridge regression on n examples, for each n, as the module has it.

    Of targets as they are: their mean is not taken out.

    Args:
        eigenvalues: l_i of the kernel, in any order; of a pool those of K / N, see `modes`.
        coefficients: v_i of the targets.
        ns: numbers of training examples.
        ridge: d over the kernel's mean diagonal, which is the sum of the eigenvalues.
        pool: N, where training examples are drawn from that many without replacement and the
            eigenvalues are the pool's; None for independent draws from the distribution.

    Raises:
        InputError: shapes, entries that are not finite, a negative eigenvalue or ridge, an n that
            is not below the pool's size, or, without ridge, not below the number of positive
            eigenvalues.
    """
    values, targets = (
        np.asarray(arrays.real_array(name, given, axes, finite=True), dtype=float)
        for name, given, axes in (
            ("eigenvalues", eigenvalues, "p"),
            ("coefficients", coefficients, "p c"),
        )
    )
    if len(targets) != len(values):
        raise InputError(
            f"coefficients are {targets.shape}; accepted with {len(values)} eigenvalues: "
            f"({len(values)}, c)"
        )
    require("pool", pool, optional(integer(len(values))))
    total = values.sum()
    if not total > 0 or values.min() < -_LARGEST_NEGATIVE * total:
        raise InputError(
            f"eigenvalues lie in {values.min():g} to {values.max():g}; accepted: 0 or more, with a "
            "positive sum"
        )
    values, shift = np.maximum(values, 0.0), problem.check_ridge(ridge) * total
    most = min(pool or np.inf, np.inf if shift else np.count_nonzero(values))
    ns = np.asarray(arrays.real_array("ns", ns, "s")).tolist()
    for n in ns:
        require("each of ns", n, integer(1))
        if n >= most:
            raise InputError(
                f"ns has {n}; accepted: below {most:g}, the size of the pool, or without a ridge "
                "the number of positive eigenvalues"
            )
    power, share = np.sum(targets**2, axis=1), 1 / pool if pool else 0.0
    found = [_at(values, power, n, shift, share) for n in ns]
    return LearningCurve(*(np.array(column) for column in zip(*found, strict=True)))


def _at(values: np.ndarray, power: np.ndarray, n: int, shift: float, share: float) -> tuple:
    """Returns the fields of a `LearningCurve` at one n; `share` is 1 / N."""
    kappa = _threshold(values, n, shift, share)
    learned, lost = values / (values + kappa), kappa / (values + kappa)
    weight = shift / kappa  # N w
    w, left = weight * share, 1 - n * share
    rest = weight * (1 - share * learned.sum()) + np.sum(learned * lost)  # n - sum L^2
    # E = e0 sum (1 - L)^2 v^2 with e0 = 1 + dw/dt of an added t, and the part of it on the
    # training examples is dw/ds of a projection times s: both of the subordination function w.
    own = n * (1 - w) ** 2 + left * weight * w
    excess = own / ((1 - w) ** 2 * rest + left * weight * w)
    whole = excess * np.sum(lost**2 * power)
    train = whole * left * weight**2 / (n * own)
    return kappa, learned, train, (whole - n * share * train) / left, whole


def _threshold(values: np.ndarray, n: int, shift: float, share: float) -> float:
    """Returns kappa: the root of a function that rises with the logarithm of kappa."""
    positive = values[values > 0]

    def missing(logarithm: float) -> float:
        kappa = np.exp(logarithm)
        # Without the learned modes, which cancel where n is their number and kappa small.
        lost = np.sum(kappa / (positive + kappa))
        learned = len(positive) - lost
        return lost + (n - len(positive)) - shift / kappa * (1 - share * learned)

    # Below these the left side of the equation is at least n.
    least = shift * (share or 1 / n) or positive.min() * (len(positive) / n - 1)
    most = (values.sum() + shift) / n
    low, high = np.log(least) - 1e-9, np.log(most) + 1e-9
    return float(np.exp(scipy.optimize.brentq(missing, low, high, xtol=1e-13, rtol=1e-14)))


def kernel_alignment_risk(
    spectrum: Spectrum, targets: Float[Array | np.ndarray, "_n c"], ridges: Sequence[float]
) -> Float[np.ndarray, " r"]:
    """Returns KARE: the test error that the training set alone predicts, for each ridge.

    With G = K + d I, of the training examples, it is (y^T G^{-2} y / n) / (tr G^{-1} / n)^2:
    squared distances summed over outputs, generalised cross-validation's number. `leave_one_out`,
    which has each example's own (G^{-1})_ii in place of their mean, does not assume that examples
    are alike: where both differ, nor does a predicted learning curve hold. Targets' mean is not
    taken out; ridges are over the mean diagonal of K.

    Raises:
        InputError: sizes or ridges are not accepted.
        NumericalError: entries that are not finite.

    Source: Jacot et al., Kernel alignment risk estimator, 2020.
    """
    targets, n = problem.targets_of(targets), len(spectrum.values)
    problem.check_targets(n, targets)
    power = np.sum((spectrum.vectors.T @ targets) ** 2, axis=1)
    risks = []
    for ridge in problem.check_ridges(ridges):
        values = spectrum.shifted(ridge)
        if values is None:
            risks.append(np.inf)
            continue
        values = values / values[-1]  # or squares would leave the range of floats
        risks.append(float(np.mean(power / values**2) / np.mean(1 / values) ** 2))
    return np.array(risks)
