"""What an experiment may be told: a table of fields, each with its default and what it accepts.

Nothing here imports jax, so that a mistake in a configuration is answered in a fraction of a second.
"""

import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_collections

from lsa_jax.errors import InputError


class Kind(NamedTuple):
    """What a field accepts: `accepts(value)` says yes or no, `accepted` says it in words.

    `type` is what an override on the command line is read as.
    """

    accepts: Callable[[Any], bool]
    accepted: str
    type: type


class Field(NamedTuple):
    """One setting: its default, what it accepts, and one line on what it means."""

    default: Any
    kind: Kind
    doc: str


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def one_of(*choices: Any) -> Kind:
    """Accepts just the listed values."""
    return Kind(lambda value: value in choices, "one of " + ", ".join(map(repr, choices)), type(choices[0]))


def integer(minimum: int) -> Kind:
    """Accepts whole numbers from `minimum` up."""
    return Kind(lambda v: _is_integer(v) and v >= minimum, f"a whole number, {minimum} or more", int)


def number(minimum: float, maximum: float = math.inf, *, above: bool = False) -> Kind:
    """Accepts finite numbers in [minimum, maximum]; `above` leaves `minimum` itself out."""
    words = f"a number above {minimum:g}" if above else f"a number, {minimum:g} or more"
    words += f" and at most {maximum:g}" if math.isfinite(maximum) else ""

    def accepts(value: Any) -> bool:
        if not _is_number(value):
            return False
        return (value > minimum if above else value >= minimum) and value <= maximum

    return Kind(accepts, words, float)


def boolean() -> Kind:
    """Accepts True and False."""
    return Kind(lambda value: isinstance(value, bool), "True or False", bool)


def text() -> Kind:
    """Accepts any string that is not empty."""
    return Kind(lambda value: isinstance(value, str) and bool(value), "a text that is not empty", str)


def tuple_of(kind: Kind) -> Kind:
    """Accepts tuples (possibly empty) whose members are all of `kind`."""

    def accepts(value: Any) -> bool:
        return isinstance(value, tuple) and all(kind.accepts(member) for member in value)

    return Kind(accepts, f"a tuple of values, each {kind.accepted}", tuple)


def optional(kind: Kind) -> Kind:
    """Accepts None beside what `kind` accepts."""
    return Kind(lambda v: v is None or kind.accepts(v), f"None or {kind.accepted}", kind.type)


def default_config(fields: Mapping[str, Field]) -> ml_collections.ConfigDict:
    """Returns the nested, locked configuration that holds every field's default.

    Args:
        fields: fields by dotted name, such as "data.image_size".
    """
    config = ml_collections.ConfigDict()
    for name, field in fields.items():
        *path, last = name.split(".")
        node = config
        for part in path:
            if part not in node:
                node[part] = ml_collections.ConfigDict()
            node = node[part]
        if field.default is None:
            node[last] = ml_collections.config_dict.placeholder(field.kind.type)
        else:
            node[last] = field.default
    return config.lock()


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the settings of a nested configuration by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict | dict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def unknown_name(what: str, name: str, known: list[str]) -> InputError:
    """Returns the error for a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return InputError(f"unknown {what} {name}; {hint}known: {', '.join(known)}")


def check(config: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Raises unless the configuration has exactly these fields, each with an accepted value.

    Raises:
        InputError: one line that names the field, the value and what is accepted.
    """
    flat = flatten(config)
    for name, value in flat.items():
        if name not in fields:
            raise unknown_name("config field", f"config.{name}", [f"config.{f}" for f in fields])
        if not fields[name].kind.accepts(value):
            raise InputError(f"config.{name} is {value!r}; accepted: {fields[name].kind.accepted}")
    missing = [name for name in fields if name not in flat]
    if missing:
        raise InputError(f"the configuration lacks config.{missing[0]}: {fields[missing[0]].doc}")
