"""Kernel ridge regression on any number of examples: by a few thousand centres, in one pass.

The predictor is a sum of kernels at m centres, some of the N examples, instead of at all of them.
With the partial Cholesky factor L of the centres' own matrix, phi(x) = L^{-1} k(centres, x) are
features whose products are the kernel's Nystrom approximation, and the regression is linear in
them. Sums of products of features, in float64, are all that is kept of an example.

That takes each kernel once, N m pairs, and 2 N m^2 other operations. Conjugate gradients with a
preconditioner (Falkon) do without the second, but go through the pairs again in each of 10 to 20
iterations. A pair of a convolutional network takes 10^4 operations and more, so that one pass is
the cheaper way up to some 10,000 centres, and its sums serve every ridge. Features are summed, and
not products of kernels as they are, which would square the condition number.

Source: Rudi, Carratino and Rosasco, FALKON: an optimal large scale kernel method, 2017, sections 2
and 3 (estimator, cost of its iterations); Meanti et al., Kernel methods through the roof, 2020.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
from jaxtyping import Array, Float, Shaped

from lsa_jax import arrays, backend, processes
from lsa_jax.checks import integer, require
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices.gram import check_options, gram, tile_side
from lsa_jax.kernels.matrices.sharded import multiply
from lsa_jax.kernels.solve import problem
from lsa_jax.kernels.solve.checkpoint import Checkpoint
from lsa_jax.kernels.solve.regression import factorize, solve

# The system that a checkpoint belongs to, for messages: no ridge, as one pass serves all.
_SYSTEM = "kernel, centres, examples or dtype"

# Share of the right-hand side that the solution may leave.
_RESIDUAL = 1e-9

# Examples of a batch of arrays: their features take 33 MB for 1,000 centres.
_BATCH = 4096


class Stream(NamedTuple):
    """Examples that come in `count` batches, each the same whenever it is read.

    `batch` is `number -> (inputs [b, ...], targets [b, c])`, of batches numbered from 0.
    """

    batch: Callable[[int], tuple[Any, Any]]
    count: int

    @classmethod
    def of(
        cls,
        inputs: Shaped[Array | np.ndarray, "n ..."],
        targets: Float[Array | np.ndarray, "_n c"],
        size: int = _BATCH,
    ) -> "Stream":
        """Returns the rows of two arrays, `size` at a time; they may be memory-mapped.

        Raises:
            InputError: unequal lengths, no rows, or a size below 1.
        """
        require("size", size, integer(1))
        inputs = arrays.real_numbers("inputs", inputs)
        arrays.check_axes("inputs", inputs.shape, "n ...")
        targets = arrays.real_numbers("targets", targets)  # perhaps of a file: not read here
        problem.check_columns(targets)
        if len(inputs) != len(targets):
            raise InputError(
                f"inputs are {inputs.shape} and targets {targets.shape}; accepted: (n, ...) and "
                "(n, c)"
            )

        def batch(number: int) -> tuple[Any, Any]:
            rows = slice(number * size, (number + 1) * size)
            return inputs[rows], targets[rows]

        return cls(batch, -(-len(inputs) // size))

    def checked(self, number: int, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns a batch as arrays.

        Raises:
            InputError: its shapes do not fit the centres or each other.
            NumericalError: targets that are not finite.
        """
        pair = self.batch(number)
        if not (isinstance(pair, list | tuple) and len(pair) == 2):
            raise InputError(
                f"batch {number} is {type(pair).__name__}; accepted: (inputs, targets)"
            )
        inputs, targets = pair
        inputs = np.asarray(arrays.real_array("inputs", inputs, "n ...", empty=True))
        targets = problem.targets_of(targets)
        if not len(inputs) or inputs.shape[1:] != centres.shape[1:]:
            raise InputError(
                f"batch {number} has inputs {inputs.shape}; accepted with centres {centres.shape}: "
                "equal shapes but for the first axis, of 1 or more"
            )
        problem.check_targets(len(inputs), targets)
        return inputs, targets

    def digest(self, count: int, centres: np.ndarray) -> str:
        """Returns a SHA-256 of the entries of the first `count` batches."""
        found = ""
        for number in range(count):
            found = _with_batch(found, *self.checked(number, centres))
        return found


class NystromRegression(NamedTuple):
    """Predictions of kernel ridge regression on centres.

    Attributes:
        predictions: [k, c], float64.
        weights: [m, c] of the centres; other predictions are mean + K(x, centres) weights.
        mean: [c], target of all examples.
        ridge: ridge over the mean diagonal of the centres' matrix that was used.
        num_examples: N, of the stream.
        rank: centres with a weight; to rounding, the others are sums of them.
        condition: estimated condition number (1-norm) of the system that was solved.
        train_error: mean squared error on all examples of the stream.
    """

    predictions: Float[np.ndarray, "k c"]
    weights: Float[np.ndarray, "m c"]
    mean: Float[np.ndarray, " c"]
    ridge: float
    num_examples: int
    rank: int
    condition: float
    train_error: float


def regress_nystrom(
    kernel: Callable[[Array, Array], Array],
    centres: Shaped[Array | np.ndarray, "m ..."],
    examples: Stream,
    test: Shaped[Array | np.ndarray, "k ..."],
    *,
    ridge: float,
    dtype: Literal["float32", "float64"] = "float32",
    memory_limit: float | None = None,
    checkpoint: Path | str | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> NystromRegression:
    """Fits kernel ridge regression on centres to any number of examples, each seen once.

    With C the centres, y0 the mean target, and lambda the ridge times the mean diagonal of K_CC,

        predictions = y0 + K(test, C) (K_CX K_XC + lambda K_CC)^{-1} K_CX (Y - y0).

    With all examples as centres that is `regress`. With `checkpoint` a call that was killed goes on
    from a state of the last minute, and ends with the same bits on the same kind of machine; a pass
    that is whole serves other ridges and test examples too. Batches that are summed already are
    read again, to check that the stream is the same, but no kernel of them is computed.

    N m + m^2 / 2 pairs, and 2 N m^2 other operations; 8 (4 m^2 + 2 b m) bytes with batches of b,
    whatever N.

    Args:
        kernel: symmetric, `(x1, x2) -> [n1, n2]`, as `gram` takes it.
        centres: C, some of the examples, or others of their form.
        examples: X and Y; `Stream.of(inputs, targets)` of arrays.
        test: inputs to predict.
        ridge: 0 or more; as in `regress`, but over the mean diagonal of the centres' matrix.
        dtype: of the kernel, as in `gram`; all else is float64 in any case.
        memory_limit: bytes that a tile of the kernel may take, as in `gram`.
        checkpoint: file that keeps the sums, a name that ends in .npz.
        progress: called with the fraction of batches that are done, after each.

    Raises:
        InputError: shapes or options are not accepted, the memory is too small, or the checkpoint
            is of another system.
        NumericalError: kernel or targets are not finite, or a system that is not solved.

    Source: Rudi, Carratino and Rosasco (2017), eq. 6, with the mean taken out.
    """
    centres = np.asarray(arrays.real_array("centres", centres, "m ...", empty=True))
    test = np.asarray(arrays.real_array("test", test, "k ...", empty=True))
    ridge = problem.check_ridge(ridge)
    check_options(memory_limit, dtype)
    require("examples.count", examples.count, integer(1))
    if not len(centres) or test.shape[1:] != centres.shape[1:]:
        raise InputError(
            f"centres are {centres.shape} and test {test.shape}; accepted: (m, ...) and (k, ...), "
            "m 1 or more"
        )
    first = inputs, targets = examples.checked(0, centres)
    m, size, zeros = len(centres), len(inputs), np.zeros((len(centres), targets.shape[1]))
    problem.check_memory(m, 8.0 * (4 * m**2 + 2 * m * size), "smaller batches", of="centres")
    if (recorder := backend.dry_run()) is not None:
        n = examples.count * size
        for some in (backend.hollow(inputs, (n,), 1), test):
            recorder.gram(kernel, some, centres, memory_limit, np.dtype(dtype))
        predictions = recorder.solve(np.broadcast_to(0.0, (m, m)), zeros, test)
        return NystromRegression(predictions, zeros, zeros[0], ridge, n, m, 1.0, 0.0)
    pairs = functools.partial(gram, kernel, dtype=dtype, memory_limit=memory_limit)
    features, sums = _summed(pairs, centres, examples, first, checkpoint, progress)
    weights, mean, condition, train_error = _solve(features, sums, ridge)
    mean = mean + _origin(targets)
    predictions = np.empty((len(test), targets.shape[1]))
    for start in range(0, len(test), size):
        some = slice(start, start + size)
        products = features.pairs(test[some], features.centres)
        predictions[some] = multiply(products, weights)
    zeros[features.kept] = weights
    seen, rank = int(sums.examples), len(weights)
    return NystromRegression(
        predictions + mean, zeros, mean, ridge, seen, rank, condition, train_error
    )


def _summed(
    pairs: functools.partial,
    centres: np.ndarray,
    examples: Stream,
    first: tuple[np.ndarray, np.ndarray],
    checkpoint: Path | str | None,
    progress: Callable[[float], None],
) -> tuple["_Features", "_Sums"]:
    """Returns the features and their sums over all batches, from where the checkpoint is.

    All processes of a job go through all batches; the first one keeps the checkpoint. The tile is
    kept with it, as other sides may round otherwise.
    """
    group, wide = processes.everyone(), pairs.keywords["dtype"] == "float64"
    store = Checkpoint(checkpoint, _SYSTEM, centres, examples.count, wide, first[1])
    kept = group.from_first(store.read)
    if kept:
        seen = examples.digest(int(kept["batches"]), centres)
        group.from_first(lambda: store.check(str(kept["seen"]) == seen))
    tile = int(kept.pop("tile")) if kept else tile_side(*pairs.args, centres, **pairs.keywords)
    features = _features(functools.partial(pairs, tile=tile), centres)
    if kept:
        store.check(str(kept.pop("kernel")) == features.digest)

    def keep(sums: _Sums, *, now: bool) -> None:
        state = sums._asdict() | {"tile": tile, "kernel": features.digest}
        group.on_first(lambda: store.write(state, now=now))

    begun = _Sums(**kept) if kept else None
    return features, _pass(features, examples, first, begun, keep, progress)


def _origin(targets: np.ndarray) -> np.ndarray:
    """Returns the mean of the first batch: squares of targets far from it would cancel."""
    return targets.mean(axis=0, dtype=float)


class _Features(NamedTuple):
    """phi(x) = L^{-1} k(centres, x), whose products are the kernel's Nystrom approximation.

    `centres` are the ones that are kept, and `kept` their numbers; L is `lower`; `mean_diagonal`
    and `digest` are of the matrix of all centres.
    """

    pairs: Callable[..., np.ndarray]
    centres: np.ndarray
    kept: np.ndarray
    lower: np.ndarray
    mean_diagonal: float
    digest: str

    def of(self, inputs: np.ndarray) -> Float[np.ndarray, "r b"]:
        """Returns the features of a batch, a column for each example."""
        values = self.pairs(inputs, self.centres).astype(float).T
        return scipy.linalg.solve_triangular(
            self.lower, values, lower=True, overwrite_b=True, check_finite=False
        )


def _features(pairs: Callable[..., np.ndarray], centres: np.ndarray) -> _Features:
    """Factorises the matrix of the centres, less centres that equal sums of others to rounding."""
    matrix = pairs(centres)
    problem.check_kernel(matrix)
    digest, mean_diagonal = gram_file.digest(matrix), problem.mean_diagonal(matrix)
    floor = len(matrix) * np.finfo(matrix.dtype).eps * float(matrix.diagonal().max())
    whole = np.array(matrix, dtype=float, order="F")
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(whole, tol=floor, lower=1, overwrite_a=1)
    kept = order[:rank] - 1
    lower = np.asfortranarray(np.tril(factor[:rank, :rank]))
    return _Features(pairs, centres[kept], kept, lower, mean_diagonal, digest)


def _with_batch(before: str, inputs: np.ndarray, targets: np.ndarray) -> str:
    """Returns the digest of some batches and one more, from the digest of those before."""
    batch = before + gram_file.digest(inputs) + gram_file.digest(targets)
    return hashlib.sha256(batch.encode()).hexdigest()


class _Sums(NamedTuple):
    """Sums over the examples seen, whose features are the columns of Phi.

    Numbers of batches and examples and a SHA-256 of the batches; Phi Phi^T on and below the
    diagonal, Phi [Y, 1], and the sums of Y and Y^2, where Y are targets less their origin.
    """

    batches: int | np.ndarray
    seen: str | np.ndarray
    examples: int | np.ndarray
    inner: np.ndarray
    right: np.ndarray
    total: np.ndarray
    squares: np.ndarray


def _pass(
    features: _Features,
    examples: Stream,
    first: tuple[np.ndarray, np.ndarray],
    sums: _Sums | None,
    keep: Callable[..., None],
    progress: Callable[[float], None],
) -> _Sums:
    """Sums over the batches that are not in the sums yet."""
    rank, width, origin = len(features.kept), first[1].shape[1], _origin(first[1])
    if sums is None:
        zeros = np.zeros((rank, rank), order="F"), np.zeros((rank, width + 1))
        sums = _Sums(0, "", 0, *zeros, np.zeros(width), np.zeros(width))
    for number in range(int(sums.batches), examples.count):
        inputs, targets = first if number == 0 else examples.checked(number, features.centres)
        if targets.shape[1] != width:
            raise InputError(
                f"batch {number} has targets {targets.shape}; accepted: (b, {width}), as in batch 0"
            )
        seen, phi = _with_batch(str(sums.seen), inputs, targets), features.of(inputs)
        targets = targets - origin
        sums = _Sums(
            number + 1,
            seen,
            sums.examples + len(inputs),
            scipy.linalg.blas.dsyrk(1.0, phi, 1.0, sums.inner, lower=1, overwrite_c=1),
            sums.right + phi @ np.concatenate([targets, np.ones((len(targets), 1))], axis=1),
            sums.total + targets.sum(axis=0),
            sums.squares + (targets**2).sum(axis=0),
        )
        keep(sums, now=number + 1 == examples.count)
        progress((number + 1) / examples.count)
    return sums


def _solve(
    features: _Features, sums: _Sums, ridge: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Returns weights of the centres that are kept, mean, condition number and squared error."""
    n, rank = int(sums.examples), len(features.kept)
    inner = np.asfortranarray(np.tril(sums.inner))
    inner += np.tril(inner, -1).T
    mean = sums.total / n
    right = sums.right[:, :-1] - np.outer(sums.right[:, -1], mean)
    shift = ridge * features.mean_diagonal
    factor = factorize(inner, shift / problem.mean_diagonal(inner))
    system = f"the system of {rank} centres and {n} examples with ridge {ridge:g}"
    if factor is None:
        raise NumericalError(
            f"{system} is not positive definite; use a larger ridge, or fewer centres"
        )
    solution = solve(factor, right)
    product = inner @ solution
    scale = np.linalg.norm(right, axis=0)
    scale[scale == 0] = 1.0
    left = np.linalg.norm(right - product - shift * solution, axis=0) / scale
    if not left.max() <= _RESIDUAL:
        raise NumericalError(
            f"{system} is solved to a residual of {left.max():.2g} alone, with condition number "
            f"{factor.condition:.2g}; use a larger ridge, or fewer centres"
        )
    weights = scipy.linalg.solve_triangular(
        features.lower, solution, lower=True, trans="T", check_finite=False
    )
    spread = sums.squares - n * mean**2
    errors = spread + np.sum(solution * (product - 2 * right), axis=0)
    return weights, mean, factor.condition, float(max(errors.mean(), 0.0) / n)
