"""Checks of arguments and settings: accepted values, and errors of one line.

Nothing here imports jax, so that a mistake in a configuration costs a fraction of a second.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lsa_jax.errors import InputError, one_line

_LARGEST = 2**31 - 1


class Kind(NamedTuple):
    """The accepted values of a setting.

    `accepts(value)` decides, `accepted` describes them for messages, and `type` parses an override
    on the command line.
    """

    accepts: Callable[[Any], bool]
    accepted: str
    type: type


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, which True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold, which True and False are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # of a whole number
        return False


def one_of(*choices: Any) -> Kind:
    """Accepts just the listed values: not True or 1.0 for 1, but 1 for 1.0."""

    def accepts(value: Any) -> bool:
        whole = (float,) if is_integer(value) else ()
        return any(value == choice and type(choice) in (type(value), *whole) for choice in choices)

    return Kind(accepts, "one of " + ", ".join(map(repr, choices)), type(choices[0]))


def integer(minimum: int) -> Kind:
    """Accepts whole numbers from `minimum` up that an array's index and a random key can hold."""

    def accepts(value: Any) -> bool:
        return is_integer(value) and minimum <= int(value) <= _LARGEST

    return Kind(accepts, f"a whole number, {minimum} or more (below 2^31)", int)


def number(minimum: float, maximum: float = math.inf, *, above: bool = False) -> Kind:
    """Accepts finite numbers in [minimum, maximum]; `above` leaves `minimum` itself out."""
    words = f"a number above {minimum:g}" if above else f"a number, {minimum:g} or more"
    words += f" and at most {maximum:g}" if math.isfinite(maximum) else ""

    def accepts(value: Any) -> bool:
        if not is_number(value):
            return False
        value = float(value)
        return (value > minimum if above else value >= minimum) and value <= maximum

    return Kind(accepts, words, float)


def boolean() -> Kind:
    """Accepts True and False."""
    return Kind(lambda value: isinstance(value, bool), "True or False", bool)


def text() -> Kind:
    """Accepts any string that is not empty."""
    return Kind(
        lambda value: isinstance(value, str) and bool(value), "a text that is not empty", str
    )


def tuple_of(kind: Kind, *, empty: bool = True) -> Kind:
    """Accepts tuples whose members are all of `kind`; the empty one where `empty`."""

    def accepts(value: Any) -> bool:
        if not isinstance(value, tuple) or not (value or empty):
            return False
        return all(kind.accepts(member) for member in value)

    words = "a tuple of values" if empty else "a tuple of one value or more"
    return Kind(accepts, f"{words}, each {kind.accepted}", tuple)


def optional(kind: Kind) -> Kind:
    """Accepts None, and the values of `kind`."""
    return Kind(lambda v: v is None or kind.accepts(v), f"None or {kind.accepted}", kind.type)


def require(name: str, value: Any, kind: Kind) -> None:
    """Raises unless `value` is of this kind.

    Raises:
        InputError: one line with the argument's name, its value and the accepted values.
    """
    if not kind.accepts(value):
        raise InputError(f"{name} is {_in_a_line(value)}; accepted: {kind.accepted}")


def _in_a_line(value: Any) -> str:
    """Returns a value in one short line; the shape of an array, not its entries."""
    shape = getattr(value, "shape", ())
    text = f"an array of shape {shape}" if shape else one_line(repr(value))
    return text if len(text) <= 200 else f"{text[:200]}..."
