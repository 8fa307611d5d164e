"""The sizes that a configuration file offers after the colon: `--config=FILE:VARIANT`."""

from collections.abc import Callable, Mapping
from typing import Any

import ml_collections

from lsa_jax.errors import InputError
from lsa_jax.sweep.fields import Settings

SIZE_FOR_TESTS = "quick"  # shows that a program starts, and no claim


class UnknownVariantError(InputError):
    """A configuration has no variant of this name; `known` are those that it has."""

    def __init__(self, variant: str, known: tuple[str, ...]) -> None:
        super().__init__(
            f"--config has no variant {variant!r}; accepted after the colon: {', '.join(known)}"
        )
        self.known = known


def set_fields(
    config: ml_collections.ConfigDict, fields: Mapping[str, Any]
) -> ml_collections.ConfigDict:
    """Sets fields of a configuration by dotted name, in place, and returns it.

    Raises:
        InputError: a field does not exist.
    """
    try:
        config.update_from_flattened_dict(fields)
    except (KeyError, AttributeError) as error:
        raise InputError(f"unknown config field: {error.args[0]}") from None
    except TypeError as error:
        raise InputError(f"a config field has another type: {error}") from None
    return config


def configurations(
    settings: Settings, full: Mapping[str, Any], **smaller: Mapping[str, Any]
) -> Callable[[str], ml_collections.ConfigDict]:
    """Returns `get_config(variant)` of a configuration file.

    Args:
        settings: of the experiment.
        full: fields by dotted name that differ from their defaults.
        **smaller: further variants by name, each with the fields that it changes in the full one.
    """
    variants = {"full": {}, **smaller}

    def get_config(variant: str = "full") -> ml_collections.ConfigDict:
        if variant not in variants:
            raise UnknownVariantError(variant, tuple(variants))
        return set_fields(set_fields(settings.default_config(), full), variants[variant])

    return get_config
