"""Results of one eigendecomposition of a kernel: every ridge, and training at every time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Array, Float, Shaped

from lsa_jax import arrays
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices.gram import gram
from lsa_jax.kernels.matrices.sharded import multiply
from lsa_jax.kernels.solve import problem

# Rounding of a float32 kernel makes eigenvalues negative by far less than this share of its mean
# diagonal; a matrix that is no kernel has others.
_LARGEST_NEGATIVE = 1e-3


class Spectrum(NamedTuple):
    """K = vectors diag(values) vectors^T.

    Attributes:
        values: [n], ascending.
        vectors: [n, n], a column for each.
        mean_diagonal: trace(K)/n.
    """

    values: Float[np.ndarray, " n"]
    vectors: Float[np.ndarray, "n n"]
    mean_diagonal: float

    def shifted(self, ridge: float) -> Float[np.ndarray, " n"] | None:
        """Returns the eigenvalues with a ridge; None where that matrix is singular to float64."""
        values = self.values + ridge * self.mean_diagonal
        return None if values[0] < np.finfo(float).eps * values[-1] else values


class Flow(NamedTuple):
    """Outputs during training, in float64: train [times, n, c] and test [times, m, c]."""

    train: Float[np.ndarray, "t n c"]
    test: Float[np.ndarray, "t m c"]


def eigendecompose(gram_train: Float[Array | np.ndarray, "n n"]) -> Spectrum:
    """Returns the eigendecomposition in float64: O(n^3) time, about 32 n^2 bytes.

    Raises:
        InputError: a matrix that is not symmetric, or does not fit the memory.
        NumericalError: entries that are not finite.
    """
    gram_train = problem.matrix("gram_train", gram_train)
    problem.check_kernel(gram_train)
    n = len(gram_train)
    problem.check_memory(n, 32 * n**2, "regress, one ridge at a time")
    matrix = np.array(gram_train, dtype=float, order="F")
    mean_diagonal = float(np.trace(matrix) / n)
    values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
    return Spectrum(values, vectors, mean_diagonal)


def ridge_path(
    spectrum: Spectrum,
    targets: Float[Array | np.ndarray, "n c"],
    gram_test: Float[Array | np.ndarray, "m n"],
    ridges: Sequence[float],
) -> Iterator[Float[np.ndarray, "m c"] | None]:
    """Yields the predictions of `regress` for each of many ridges.

    From the spectrum of K, targets Y, K_test and ridges over the mean diagonal of K. O(m n^2) time
    once, then O(m n c) for each ridge.

    Yields:
        Predictions [m, c]; None where the matrix is not positive definite.

    Raises:
        InputError: sizes or ridges are not accepted, or do not fit the memory.
        NumericalError: entries that are not finite.
    """
    targets = problem.targets_of(targets)
    gram_test = problem.matrix("gram_test", gram_test)
    ridges = problem.check_ridges(ridges)
    problem.check_targets(len(spectrum.values), targets, gram_test)
    size = 8 * len(gram_test) * len(spectrum.values)
    problem.check_memory(len(spectrum.values), size, "test examples a part at a time")
    mean = targets.mean(axis=0, dtype=float)
    rotated = spectrum.vectors.T @ (targets - mean)
    rotated_test = multiply(gram_test, spectrum.vectors)
    for ridge in ridges:
        values = spectrum.shifted(ridge)
        yield None if values is None else rotated_test @ (rotated / values[:, None]) + mean


def leave_one_out(
    spectrum: Spectrum, targets: Float[Array | np.ndarray, "n c"], ridges: Sequence[float]
) -> Float[np.ndarray, " r"]:
    """Returns the mean squared error on examples left out one at a time, for each ridge.

    For G = K + lambda I, the error on example i of a fit without it is (G^{-1} Y)_i / (G^{-1})_ii.
    The mean target that `regress` takes out is that of the other examples: the same formula on
    targets less (sum Y - Y_i)/(n - 1). lambda is the ridge times trace(K)/n of all examples, two or
    more. The error is infinite where the matrix is not positive definite. O(n^2) time for each
    ridge.

    Raises:
        InputError: sizes or ridges are not accepted, or do not fit the memory.
        NumericalError: targets that are not finite.

    Source: Rasmussen and Williams, Gaussian processes for machine learning, 2006, eq. 5.12.
    """
    targets, n = problem.targets_of(targets), len(spectrum.values)
    ridges = problem.check_ridges(ridges)
    problem.check_targets(n, targets)
    if n < 2:
        raise InputError(f"there is {n} example; accepted: 2 or more, to leave one out")
    problem.check_memory(n, 8 * n**2, "leave_one_out_cg")
    centred = targets - targets.mean(axis=0, dtype=float)
    others_mean = -centred / (n - 1)  # of the centred targets, whose sum is 0
    right = np.concatenate([centred, np.ones((n, 1))], axis=1)
    rotated, squares = spectrum.vectors.T @ right, spectrum.vectors**2
    errors = np.full(len(ridges), np.inf)
    for index, ridge in enumerate(ridges):
        values = spectrum.shifted(ridge)
        if values is not None:
            solved = spectrum.vectors @ (rotated / values[:, None])
            diagonal = squares @ (1 / values)
            left_out = (solved[:, :-1] - others_mean * solved[:, -1:]) / diagonal[:, None]
            errors[index] = np.mean(left_out**2)
    return errors


def leave_one_out_ridge(
    gram_train: Float[Array | np.ndarray, "n n"],
    targets: Float[Array | np.ndarray, "n c"],
    ridges: Sequence[float],
) -> float:
    """Returns the ridge with the least squared error on examples left out one at a time.

    Of ridges over the mean diagonal of K; of equally good ones the smallest. O(n^3) time for all
    ridges together.

    Raises:
        InputError: no ridge, fewer than two examples, or as in `regress`.
        NumericalError: no ridge makes the matrix positive definite, or entries are not finite.
    """
    ordered = sorted(problem.check_ridges(ridges))
    gram_train = problem.matrix("gram_train", gram_train)
    problem.check_targets(len(gram_train), problem.targets_of(targets))
    spectrum = eigendecompose(gram_train)
    errors = leave_one_out(spectrum, targets, ordered)
    if not np.isfinite(errors).any():
        raise _singular(spectrum, ordered[-1])
    return ordered[int(np.argmin(errors))]


def _singular(spectrum: Spectrum, ridge: float) -> NumericalError:
    relative = float(spectrum.values[0]) / spectrum.mean_diagonal
    return problem.not_positive_definite(len(spectrum.values), ridge, relative)


def gradient_flow(
    spectrum: Spectrum,
    targets: Float[Array | np.ndarray, "n c"],
    gram_test: Float[Array | np.ndarray, "m n"],
    times: Sequence[float],
    *,
    train_outputs: Float[Array | np.ndarray, "n c"] | None = None,
    test_outputs: Float[Array | np.ndarray, "m c"] | None = None,
    ridge: float = 0.0,
) -> Flow:
    """Returns the outputs of a network in its kernel regime, trained by gradient flow until t.

    The loss is sum (f - Y)^2 / (2 n c), a time is a learning rate times a number of steps, and K is
    the NTK, which stays as it is. With s = t / (n c), f_0 the outputs at the start, and G = K with
    its ridge,

        f_t(train) = f_0 - K G^{-1} (1 - exp(-G s)) (f_0 - Y)
        f_t(test) = f_0(test) - K_test G^{-1} (1 - exp(-G s)) (f_0 - Y).

    O((n + m) n c) time for each time. Negative eigenvalues, by rounding, count as 0.

    Args:
        spectrum: of K.
        targets: Y.
        gram_test: K_test, test against training examples.
        times: 0 or more; infinity, and times from which K's rounding counts, where K with its ridge
            is positive definite.
        train_outputs: f_0 on the training examples; None means 0.
        test_outputs: f_0 on the test examples; None means 0.
        ridge: added to K, over its mean diagonal: weight decay towards f_0.

    Raises:
        InputError: sizes, times or ridge are not accepted, or do not fit the memory.
        NumericalError: entries that are not finite, or K has negative eigenvalues beyond rounding,
            or is singular at such a time.

    Source: Lee et al., Wide neural networks of any depth evolve as linear models, 2019, eq. 10 and
    11; `neural_tangents.predict.gradient_descent_mse` has the same scale of time.
    """
    targets = problem.targets_of(targets).astype(float, copy=False)
    gram_test = problem.matrix("gram_test", gram_test)
    ridge = problem.check_ridge(ridge)
    times = np.asarray(arrays.real_array("times", times, "t", empty=True)).tolist()
    problem.check_targets(len(spectrum.values), targets, gram_test)
    started = _outputs("train_outputs", train_outputs, targets.shape)
    test_started = _outputs("test_outputs", test_outputs, (len(gram_test), targets.shape[1]))
    own = _flow_values(spectrum, ridge, times, targets.size)
    n, m = len(targets), len(gram_test)
    needed = 8 * (m * n + 2 * len(times) * (n + m) * targets.shape[1])
    problem.check_memory(n, needed, "fewer times, or test examples a part at a time")
    values = own + ridge * spectrum.mean_diagonal
    missing = spectrum.vectors.T @ (started - targets)
    rotated_test = multiply(gram_test, spectrum.vectors)
    train, test = [], []
    for time in times:
        gone = -np.expm1(-values * (time / targets.size))
        # (1 - exp(-k s)) / k, which tends to s as k tends to 0.
        with np.errstate(invalid="ignore", divide="ignore"):
            reach = np.where(values > 0, gone / values, time / targets.size)
        train.append(started - spectrum.vectors @ ((own * reach)[:, None] * missing))
        test.append(test_started - rotated_test @ (reach[:, None] * missing))
    return Flow(np.stack(train), np.stack(test))


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
    """Returns the mean over initialisations of wide networks after gradient flow until t.

    Outputs start with mean 0, so it is the flow of `gradient_flow` from 0, with the same loss,
    scale of time, ridge and errors; targets' mean is not taken out. The kernel is `model.ntk` where
    all layers are trained, `model.nngp` where the last one alone is; options are those of `gram`
    but for path, packed and sharded.
    For several times, or many ridges, call `gram` and `eigendecompose` once, and then
    `gradient_flow` or `ridge_path`. O(n^3) time for the decomposition and the kernel's time; memory
    for both matrices.

    Raises:
        InputError: as in `gram` and `gradient_flow`.
        NumericalError: as in these; at infinite time also a singular kernel.

    Source: Lee et al., Wide neural networks of any depth evolve as linear models, 2019, eq. 14;
    `neural_tangents.predict.gradient_descent_mse_ensemble` computes the same.
    """
    if kept := sorted({"path", "packed", "sharded"}.intersection(options)):
        raise InputError(
            f"options have {', '.join(kept)}; accepted: no way to keep a matrix: call gram for "
            "each of the two, and then gradient_flow"
        )
    inputs = arrays.real_array("inputs", inputs, "n ...")
    test_inputs = arrays.real_array("test_inputs", test_inputs, "m ...")
    targets = problem.targets_of(targets)
    problem.check_targets(len(inputs), targets)
    spectrum = eigendecompose(gram(kernel, inputs, **options))
    gram_test = gram(kernel, test_inputs, inputs, **options)
    return gradient_flow(spectrum, targets, gram_test, [time], ridge=ridge).test[0]


def _outputs(name: str, outputs: Array | np.ndarray | None, shape: tuple[int, int]) -> np.ndarray:
    if outputs is None:
        return np.zeros(shape)
    outputs = np.asarray(arrays.real_array(name, outputs), dtype=float)
    if outputs.shape != shape:
        raise InputError(f"{name} are {outputs.shape}; accepted: None or {shape}")
    if not np.isfinite(outputs).all():
        raise NumericalError(f"{name} has entries that are not finite; check the network")
    return outputs


def _flow_values(spectrum: Spectrum, ridge: float, times: Sequence[float], size: int) -> np.ndarray:
    """Returns the eigenvalues of K, none of them negative, once the flow is known to exist."""
    if not len(times) or not all(time >= 0 for time in times):
        raise InputError(f"times are {times!r}; accepted: one or more, each 0 or more")
    if spectrum.values[0] < -_LARGEST_NEGATIVE * spectrum.mean_diagonal:
        raise _singular(spectrum, ridge)
    # From then on it is rounding in K's null space that grows.
    is_long = max(times) * float(spectrum.values[-1]) * np.finfo(float).eps > size
    if is_long and spectrum.shifted(ridge) is None:
        raise _singular(spectrum, ridge)
    return np.maximum(spectrum.values, 0.0)
