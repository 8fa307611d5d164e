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

import functools
import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax import arrays, backend, processes
from lsa_jax.checks import integer, number, require
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.learned.outer_product import average_gradient_outer_product
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices.gram import gram
from lsa_jax.kernels.solve.regression import fitted_weights
from lsa_jax.reporting import files

# Share of an update's time that the kernel matrix takes, about.
_GRAM_SHARE = 0.7


class FeatureMachine(NamedTuple):
    """A kernel that has learned its features.

    Attributes:
        kernel: with the transform after the last update, to be given to `gram` and `regress`.
        transforms: [updates + 1, k, k], symmetric; the first is the identity, each of its Frobenius
            norm.
    """

    kernel: Callable[..., Array]
    transforms: Float[np.ndarray, "updates_and_first k k"]


class _Settings(NamedTuple):
    """Settings that decide the transforms, with kernel and examples."""

    points: int
    ridge: float
    power: float


class _Machine(NamedTuple):
    """The arguments that all updates share."""

    kernel_of_transform: Callable[[np.ndarray], Callable[..., Array]]
    x: np.ndarray
    y: np.ndarray
    chosen: np.ndarray
    settings: _Settings
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
    _check(x, y, updates, points, ridge, power)
    size = size or int(np.prod(x.shape[1:]))
    settings = _Settings(min(points, len(x)), float(ridge), float(power))
    folder = Path(directory) if directory and backend.dry_run() is None else None
    chosen = np.sort(np.asarray(jax.random.permutation(key, len(x)))[: settings.points])
    machine = _Machine(kernel_of_transform, x, y, chosen, settings, memory_limit)
    if folder:
        _claim(folder, machine, size)
    transforms = [np.eye(size)]
    for done in range(updates):
        report = lambda fraction, done=done: progress((done + fraction) / updates)  # noqa: E731
        update = functools.partial(_update, machine, transforms[-1], report)
        transforms.append(_kept(folder, done + 1, update, keep_matrix=keep_matrices))
    progress(1.0)
    return FeatureMachine(kernel_of_transform(transforms[-1]), np.stack(transforms))


def _kept(
    folder: Path | None,
    number_of: int,
    update: Callable[[Path | None], np.ndarray],
    *,
    keep_matrix: bool,
) -> np.ndarray:
    """Returns an update's transform: read where it is kept, or computed and kept there."""
    if folder is None:
        return update(None)
    path, matrix = folder / f"transform_{number_of}.npy", folder / f"gram_{number_of}.npy"
    # Of several processes the first alone reads and writes, and all take the same turns.
    group = processes.everyone()
    remedy = "remove it to have the update computed again"
    kept = group.from_first(lambda: files.read_array(path, remedy) if path.exists() else None)
    if kept is not None:
        return kept
    transform = update(matrix)

    def keep() -> None:
        _keep(path, transform)
        for used in () if keep_matrix else folder.glob(f"{matrix.name}*"):
            used.unlink()

    group.on_first(keep)
    return transform


def _check(
    x: np.ndarray, y: np.ndarray, updates: int, points: int, ridge: float, power: float
) -> None:
    require("updates", updates, integer(0))
    require("points", points, integer(1))
    require("ridge", ridge, number(0))
    require("power", power, number(0, above=True))
    if len(x) != len(y):
        raise InputError(f"x is {x.shape} and y {y.shape}; accepted: (n, ...) and (n, c)")


def _update(
    machine: _Machine, transform: np.ndarray, progress: Callable[[float], None], matrix: Path | None
) -> np.ndarray:
    """Returns the next transform, by the predictor with the kernel of this one."""
    kernel, x, limit = machine.kernel_of_transform(transform), machine.x, machine.memory_limit
    gram_train = gram(
        kernel,
        x,
        memory_limit=limit,
        path=matrix,
        progress=lambda done: progress(_GRAM_SHARE * done),
    )
    if backend.dry_run() is not None:  # nothing was computed
        return transform
    outer = average_gradient_outer_product(
        kernel,
        fitted_weights(gram_train, machine.y, ridge=machine.settings.ridge),
        x,
        x[machine.chosen],
        rows=len(transform) != x[0].size,
        memory_limit=limit,
        progress=lambda done: progress(_GRAM_SHARE + (1 - _GRAM_SHARE) * done),
    )
    return _power(outer, machine.settings.power)


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


def _probe(
    kernel_of_transform: Callable[[np.ndarray], Callable[..., Array]], x: np.ndarray, size: int
) -> np.ndarray:
    """Returns a kernel's values of the first examples, which identify it on any machine.

    With the identity, and with another transform.
    """
    direction = np.cos(np.arange(size))
    other = (np.eye(size) + 2 * np.outer(direction, direction) / np.sum(direction**2)) / 2
    some = x[:2]
    return np.array([gram(kernel_of_transform(t), some) for t in (np.eye(size), other)], float)


def _claim(folder: Path, machine: _Machine, size: int) -> None:
    """Records in a new directory its machine; raises InputError in another machine's."""
    probe = _probe(machine.kernel_of_transform, machine.x, size)
    digests = map(gram_file.digest, (machine.x, machine.y, machine.chosen))
    examples = hashlib.sha256("".join(digests).encode()).hexdigest()
    mine = {**machine.settings._asdict(), "examples": examples}
    processes.everyone().on_first(lambda: _check_claim(folder, probe, mine))


def _check_claim(folder: Path, probe: np.ndarray, mine: dict[str, Any]) -> None:
    path = folder / "machine.json"
    if not path.exists():
        files.write_json(path, mine | {"probe": probe.tolist()})
        return
    remedy = f"accepted: an empty directory; remove {folder} to have all of it computed again"
    found = files.read_object(path, remedy)
    try:
        probe_found = np.asarray(found.pop("probe"), float)
    except (KeyError, ValueError, TypeError):
        raise InputError(f"{path} is damaged; {remedy}") from None
    tolerance = 1e-4 * np.abs(probe).max()
    differs = [name for name in mine if found.get(name) != mine[name]]
    if probe_found.shape != probe.shape or np.abs(probe_found - probe).max() > tolerance:
        differs.append("kernel")
    if differs:
        raise InputError(
            f"directory is {str(folder)!r}, of a machine with other {', '.join(differs)}; "
            "accepted: an empty one, or that of the same call"
        )


def _keep(path: Path, transform: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, transform)
    files.write_bytes(path, buffer.getvalue())
