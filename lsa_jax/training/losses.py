"""Losses and accuracy of single examples; the training loop takes their means.

Outputs are [n, c]. Targets are rows [n, c]; with one output, [n] means [n, 1]. The cross-entropies
and `is_correct` also accept class numbers, integers [n], with two outputs or more. Every other pair
of shapes is refused: numpy would compare each output with each target. Where a target is NaN, the
result of its example is NaN.
"""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Shaped

from lsa_jax.arrays import real_array
from lsa_jax.errors import InputError

Outputs = Shaped[Array | np.ndarray, "n ..."]
Targets = Shaped[Array | np.ndarray, "n ..."]


def softmax_cross_entropy(outputs: Outputs, targets: Targets) -> Float[Array, " n"]:
    """Returns -sum_c targets_c log softmax(outputs)_c, where classes of target 0 add nothing.

    Args:
        outputs: [n, c], two or more.
        targets: probabilities [n, c], such as one-hot rows, or class numbers, integers [n].

    Raises:
        InputError: other shapes, negative rows, or a class outside 0 to c - 1. Traced classes
            outside give NaN.
    """
    outputs, targets = paired(outputs, targets, "probabilities")
    return optax.safe_softmax_cross_entropy(outputs, _rows(targets, outputs.shape[1]))


def class_mean_cross_entropy(outputs: Outputs, targets: Targets) -> Float[Array, " n"]:
    """Returns softmax_cross_entropy / c, the mean over the classes instead of the sum.

    Source: the implementation of Karp et al. (2021), where it scales the learning rate by 1 / c.
    """
    return softmax_cross_entropy(outputs, targets) / np.shape(outputs)[-1]


def squared_error(outputs: Outputs, targets: Targets) -> Float[Array, " n"]:
    """Returns half the squared distance, summed over the outputs.

    Args:
        outputs: [n, c].
        targets: [n, c]; of one output also [n].

    Raises:
        InputError: other shapes.
    """
    outputs, targets = paired(outputs, targets, "numbers")
    return 0.5 * jnp.sum(jnp.square(outputs - targets), axis=-1)


def logistic(outputs: Outputs, targets: Targets) -> Float[Array, " n"]:
    """Returns log(1 + exp(-y f)).

    Args:
        outputs: [n, 1].
        targets: signs, -1 or +1, [n] or [n, 1].

    Raises:
        InputError: other shapes or targets.
    """
    outputs, targets = paired(outputs, targets, "signs")
    return jax.nn.softplus(-targets * outputs[:, 0])


def hinge(outputs: Outputs, targets: Targets) -> Float[Array, " n"]:
    """Returns max(0, 1 - y f), with outputs and targets as in `logistic`."""
    outputs, targets = paired(outputs, targets, "signs")
    return jax.nn.relu(1.0 - targets * outputs[:, 0])


_KINDS = {
    softmax_cross_entropy: "probabilities",
    class_mean_cross_entropy: "probabilities",
    squared_error: "numbers",
    logistic: "signs",
    hinge: "signs",
}

LOSSES: dict[str, Callable] = {loss.__name__: loss for loss in _KINDS}


def is_correct(outputs: Outputs, targets: Targets) -> Float[Array, " n"]:
    """Returns 1 where an example is classified correctly, else 0.

    NaN where an output or a target is NaN: argmax over NaN would return class 0.

    Args:
        outputs: [n, c].
        targets: of two outputs or more, one-hot rows [n, c], whose largest entry is compared with
            the largest output, or class numbers, integers [n]; of one output, numbers [n] or
            [n, 1] whose sign is compared with the output's. An output of zero is incorrect.

    Raises:
        InputError: other shapes, a class outside 0 to c - 1, or a target without a sign. Traced
            ones give NaN.
    """
    outputs = real_array("outputs", outputs)
    outputs, targets = paired(outputs, targets, _kind_of_answers(outputs.shape))
    if outputs.shape[1] == 1:
        correct = jnp.sign(outputs[:, 0]) == jnp.sign(targets)  # products may vanish
        known = ~jnp.isnan(targets) & (targets != 0)
    elif targets.ndim == 1:
        correct = jnp.argmax(outputs, axis=-1) == targets
        known = (targets >= 0) & (targets < outputs.shape[1])
    else:
        correct = jnp.argmax(outputs, axis=-1) == jnp.argmax(targets, axis=-1)
        known = ~jnp.isnan(targets).any(axis=-1)
    return jnp.where(known & ~jnp.isnan(outputs).any(axis=-1), correct, jnp.nan)


def _kind_of_answers(shape: tuple[int, ...]) -> str:
    return "sides" if shape[1:] == (1,) else "classes"


def check_all(function: Callable, size: int, targets: Targets) -> bool:
    """Checks a data set's targets for a loss or `is_correct`, of a network with `size` outputs.

    Returns False for any other function.

    Raises:
        InputError: the targets do not fit.
    """
    kind = _kind_of_answers((1, size)) if function is is_correct else _KINDS.get(function)
    if kind is not None:
        paired(np.broadcast_to(np.float32(0), (len(targets), size)), targets, kind)
    return kind is not None


def paired(
    outputs: Outputs,
    targets: Targets,
    kind: Literal["probabilities", "classes", "numbers", "signs", "sides"],
) -> tuple[Float[Array | np.ndarray, "n c"], Shaped[Array | np.ndarray, "n ..."]]:
    """Returns outputs [n, c] and targets in the forms that a loss or metric compares.

    Targets are of "classes" (rows [n, c > 1], or integers [n]), "probabilities" (the same without
    negative rows), "numbers" ([n, c]), "signs" (-1 or +1, one output) or "sides" (any numbers but
    zero, one output).

    Returns:
        Outputs as floats, and targets: floats of the outputs' shape, class numbers int32 [n], or
        floats [n] of signs and sides.

    Raises:
        InputError: the two do not fit, or targets are not of this kind.
    """
    if str(getattr(targets, "dtype", "")) == "bool":
        targets = targets.astype(np.uint8)
    outputs = real_array("outputs", outputs, "n c")
    targets = real_array("targets", targets, "n ...")
    count, size = outputs.shape

    def refused(accepted: str, way_out: str) -> InputError:
        return InputError(
            f"targets has shape {targets.shape} ({targets.dtype}) for outputs of shape "
            f"{outputs.shape}; accepted: {accepted}; {way_out}"
        )

    if targets.shape[0] != count:
        raise refused(f"[{count}, ...]", "pass as many of both")
    of_classes = kind in ("classes", "probabilities")
    if of_classes and size == 1:
        raise refused("two outputs or more", "training.logistic takes signs and one output")
    if kind in ("signs", "sides") and size > 1:
        raise refused("one output", "training.softmax_cross_entropy takes more")
    if of_classes and targets.ndim == 1 and _is_whole(targets):
        return floats(outputs), _class_numbers(targets, size)
    if size == 1 and targets.ndim == 1:
        targets = targets[:, None]
    if targets.shape != outputs.shape:
        raise refused(f"[{count}, {size}]", _way_out(targets, size))
    if kind in ("signs", "sides"):
        _check_signs(targets, kind)
        targets = targets.reshape(-1)
    elif kind == "probabilities":
        _check_probabilities(targets)
    return floats(outputs), floats(targets)


def _is_whole(array: Array | np.ndarray) -> bool:
    return jnp.issubdtype(array.dtype, jnp.integer)


def floats(array: Array | np.ndarray) -> Float[Array | np.ndarray, "..."]:
    """Returns an array as floats: differences of unsigned integers would wrap around."""
    return array.astype(np.float32) if _is_whole(array) else array


def _way_out(targets: Array | np.ndarray, size: int) -> str:
    """Returns advice on making rows of targets of another shape."""
    if targets.size != len(targets):
        return f"pass one target for each of the {size} outputs"
    column = "y[:, 0]" if targets.ndim == 2 and targets.shape[1] == 1 else "y"
    whole = column if _is_whole(targets) else f"{column}.astype(int)"
    return f"jax.nn.one_hot({whole}, {size}) makes rows of class numbers y"


def _class_numbers(targets: Array | np.ndarray, size: int) -> Array | np.ndarray:
    if not isinstance(targets, jax.core.Tracer):
        least, most = int(targets.min()), int(targets.max())
        if least < 0 or most >= size:
            raise InputError(
                f"targets has class {least if least < 0 else most}; accepted for {size} "
                f"outputs: 0 to {size - 1}"
            )
    return targets.astype(np.int32)


def _check_signs(targets: Array | np.ndarray, kind: str) -> None:
    """Raises InputError unless numbers have signs, as far as they are known."""
    if jnp.issubdtype(targets.dtype, jnp.unsignedinteger):
        found = f"holds {targets.dtype}, which has no signs"
    elif isinstance(targets, jax.core.Tracer):
        return
    else:
        values = np.asarray(targets)
        bad = (values == 0) if kind == "sides" else (abs(values) != 1) & ~np.isnan(values)
        if not bad.any():
            return
        found = f"has {bad.sum()} entries such as {values[bad][0]:g}"
    accepted = "-1 and +1" if kind == "signs" else "numbers other than 0"
    raise InputError(
        f"targets {found}; accepted for one output: {accepted}; 2.0 * y - 1 makes signs of 0 and 1"
    )


def _check_probabilities(targets: Array | np.ndarray) -> None:
    """Raises InputError where rows are negative: the cross-entropy would have no lower bound."""
    if isinstance(targets, jax.core.Tracer) or not (below := np.asarray(targets) < 0).any():
        return
    raise InputError(
        f"targets has {below.sum()} negative entries such as {np.asarray(targets)[below][0]:g}; "
        "accepted for a cross-entropy: probabilities, such as one-hot rows; (y + 1) / 2 makes rows "
        "of 0 and 1 of signs, and training.squared_error takes any numbers"
    )


def _rows(targets: Array | np.ndarray, size: int) -> Float[Array | np.ndarray, "n c"]:
    """Returns one-hot rows of class numbers, NaN where there is no such class; rows stay."""
    if targets.ndim == 2:
        return targets
    known = (targets >= 0) & (targets < size)
    return jnp.where(known[:, None], jax.nn.one_hot(targets, size), jnp.nan)


def target_rows(size: int, targets: Targets) -> Float[Array | np.ndarray, "n k"]:
    """Returns targets as rows y, for kernels that are compared with y y^T.

    Targets of a network with `size` outputs are rows [n, ...] of any length; class numbers,
    integers [n], with two outputs or more; numbers [n] with one.

    Raises:
        InputError: numbers [n] that are no classes, with two outputs or more.
    """
    targets = real_array("targets", targets, "n ...")
    if targets.ndim > 1 or size == 1:
        return floats(targets).reshape(len(targets), -1)
    if not _is_whole(targets):
        raise InputError(
            f"targets has shape {targets.shape} ({targets.dtype}) for {size} outputs; accepted: "
            f"rows [n, ...]; {_way_out(targets, size)}"
        )
    return _rows(_class_numbers(targets, size), size)
