"""Refusing an argument that a model cannot be built from, in one line."""

from typing import Any

from lsa_jax.errors import InputError
from lsa_jax.settings.fields import Kind


def require(name: str, value: Any, kind: Kind) -> None:
    """Raises unless `value` is of this kind.

    Raises:
        InputError: one line with the argument's name, its value and what is accepted.
    """
    if not kind.accepts(value):
        raise InputError(f"{name} is {value!r}; accepted: {kind.accepted}")
