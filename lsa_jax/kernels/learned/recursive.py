"""Recursive feature machines: kernels that learn which directions of their inputs matter.

From T = I on, each update (1) fits kernel ridge regression with the kernel of T to the targets,
less their mean; (2) averages the outer products of the fitted predictor's gradients at some of the
training examples, M; and (3) takes T = M^power, scaled to the Frobenius norm of I, so that the
kernel's size does not drift.

An update takes the time of a Gram matrix of n (n + 1) / 2 pairs, of about three times points n
pairs, and O(n^3). Memory as `gram` and `regress` need it.

Source: Radhakrishnan et al. (2024), Mechanism for feature learning in neural networks, algorithm 1;
Beaglehole et al. (2023), Mechanism of feature learning in convolutional networks, algorithm 1, for
patches.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax import arrays, backend, processes
from lsa_jax.checks import integer, number, optional, require
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.learned.outer_product import average_gradient_outer_product
from lsa_jax.kernels.matrices.gram import gram
from lsa_jax.kernels.solve.checkpoint import Checkpoint
from lsa_jax.kernels.solve.regression import regress

# Share of an update's time that the kernel matrix takes, about.
_GRAM_SHARE = 0.7

# The parts of a machine that a directory belongs to, for messages.
_SYSTEM = "kernel, examples, points, ridge or power"


class FeatureMachine(NamedTuple):
    """A kernel that has learned its features.

    Attributes:
        kernel: with the transform after the last update, to be given to `gram` and `regress`.
        transforms: [updates + 1, k, k], symmetric; the first is the identity, each of its Frobenius
            norm.
    """

    kernel: Callable[..., Array]
    transforms: Float[np.ndarray, "updates_and_first k k"]


class _Machine(NamedTuple):
    """The arguments that all updates share: the kernel of a transform, examples and settings."""

    kernel_of_transform: Callable[[np.ndarray], Callable[..., Array]]
    x: np.ndarray
    y: np.ndarray
    chosen: np.ndarray
    ridge: float
    power: float
    memory_limit: float | None


def recursive_feature_machine(
    kernel_of_transform: Callable[[np.ndarray], Callable[..., Array]],
    x: Float[Array | np.ndarray, "n ..."],
    y: Float[Array | np.ndarray, "_n ..."],
    *,
    key: Key[Array, ""],
    size: int | None = None,
    updates: int = 4,
    points: int = 200,
    ridge: float = 1e-3,
    power: float = 0.5,
    memory_limit: float | None = None,
    directory: Path | str | None = None,
    keep_matrices: bool = False,
    progress: Callable[[float], None] = lambda fraction: None,
) -> FeatureMachine:
    """Lets a kernel learn a linear transform of its inputs, or of its first layer's patches.

    With `directory` each transform is kept, and the running update's matrix: a call that was killed
    is resumed, and ends with the same bits; more updates continue from fewer.

    Args:
        kernel_of_transform: `(T [k, k]) -> kernel`, `kernel(x1 [n1, ...], x2=None) -> [n1, n2]`:
            `model.kernel.transformed`, or `lambda T: lambda x1, x2: k(x1 @ T, x2 @ T)`.
        x: training examples.
        y: targets.
        key: draws the points.
        size: k; a network's is `model.kernel.transform_size(x.shape[1:])`. None: an input's size.
        updates: how many times the transform is learned.
        points: training examples at which gradients are taken, or all.
        ridge: over the kernel's mean diagonal.
        power: of M; 1/2 makes K the kernel of <x, M x'>.
        memory_limit: bytes, as in `gram`.
        directory: keeps the state.
        keep_matrices: keep all kernel matrices but the last there, as `gram_1.npy` and so on.
        progress: called with the fraction done.

    Returns:
        The kernel after the last update, and every transform.

    Raises:
        InputError: an argument is not accepted, or the directory is another machine's.
        NumericalError: a kernel, its solution or the gradients are not finite, or all gradients 0.
    """
    x = np.asarray(arrays.inputs("x", x, whole=False, empty=False))
    y, key = np.asarray(arrays.real_array("y", y, "n c")), arrays.random_key("key", key)
    require("size", size, optional(integer(1)))
    require("updates", updates, integer(0))
    require("points", points, integer(1))
    require("ridge", ridge, number(0))
    require("power", power, number(0, above=True))
    if len(x) != len(y):
        raise InputError(f"x is {x.shape} and y {y.shape}; accepted: (n, ...) and (n, c)")
    size = size or int(np.prod(x.shape[1:]))
    folder = Path(directory) if directory and backend.dry_run() is None else None
    chosen = np.sort(np.asarray(jax.random.permutation(key, len(x)))[:points])
    settings = float(ridge), float(power), memory_limit
    machine = _Machine(kernel_of_transform, x, y, chosen, *settings)
    transforms, keep = _kept(folder, machine, size) if folder else ([np.eye(size)], None)
    for done in range(len(transforms) - 1, updates):
        report = lambda fraction, done=done: progress((done + fraction) / updates)  # noqa: E731
        matrix = folder and folder / f"gram_{done + 1}.npy"
        transforms.append(_update(machine, transforms[-1], report, matrix))
        if keep is not None:
            keep(transforms, None if keep_matrices else matrix)
    progress(1.0)
    transforms = transforms[: updates + 1]
    return FeatureMachine(kernel_of_transform(transforms[-1]), np.stack(transforms))


def _kept(
    folder: Path, machine: _Machine, size: int
) -> tuple[list[np.ndarray], Callable[[list[np.ndarray], Path | None], None]]:
    """Returns the transforms that a directory keeps, and `(transforms, used matrix)`, to keep more.

    A kernel's values of the first examples identify it on any machine: with the identity, and with
    another transform. The first of several processes alone reads and writes.
    """
    wave = np.cos(np.arange(size))
    other = (np.eye(size) + 2 * np.outer(wave, wave) / np.sum(wave**2)) / 2
    both = (machine.kernel_of_transform(transform) for transform in (np.eye(size), other))
    probe = np.array([gram(kernel, machine.x[:2]) for kernel in both], float)
    own = machine.x, machine.y, machine.chosen, machine.ridge, machine.power
    store, group = Checkpoint(folder / "transforms.npz", _SYSTEM, *own), processes.everyone()
    found = group.from_first(store.read) or {"probe": probe, "transforms": np.eye(size)[None]}
    same = np.allclose(found["probe"], probe, rtol=0, atol=1e-4 * np.abs(probe).max())
    group.on_first(lambda: store.check(same))

    def keep(transforms: list[np.ndarray], used: Path | None) -> None:
        store.write({"probe": probe, "transforms": np.stack(transforms)}, now=True)
        for file in folder.glob(f"{used.name}*") if used else ():
            file.unlink()

    return list(found["transforms"]), lambda *given: group.on_first(lambda: keep(*given))


def _update(
    machine: _Machine, transform: np.ndarray, progress: Callable[[float], None], matrix: Path | None
) -> np.ndarray:
    """Returns the next transform, by the predictor with the kernel of this one."""
    kernel, x, limit = machine.kernel_of_transform(transform), machine.x, machine.memory_limit
    report = lambda done: progress(_GRAM_SHARE * done)  # noqa: E731
    gram_train = gram(kernel, x, memory_limit=limit, path=matrix, progress=report)
    if backend.dry_run() is not None:  # nothing was computed
        return transform
    fit = regress(gram_train, machine.y, gram_train[:1], ridge=machine.ridge)
    outer = average_gradient_outer_product(
        kernel,
        fit.weights,
        x,
        x[machine.chosen],
        rows=len(transform) != x[0].size,
        memory_limit=limit,
        progress=lambda done: progress(_GRAM_SHARE + (1 - _GRAM_SHARE) * done),
    )
    return _power(outer, machine.power)


def _power(matrix: np.ndarray, power: float) -> np.ndarray:
    """Returns a positive semidefinite matrix to a power, scaled to the norm of the identity."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if not values[-1] > 0:
        raise NumericalError(
            "the predictor's gradients are all 0, so there is nothing to learn from; use targets "
            "that differ, or a smaller ridge"
        )
    # Before the power, so that none over- or underflows; rounding leaves values below 0.
    values = np.maximum(values / values[-1], 0) ** power
    values *= np.sqrt(len(values)) / np.linalg.norm(values)
    return (vectors * values) @ vectors.T
