"""The networks that `config.model.name` can name: entries of `FAMILIES`, or FILE.py:NAME.

Settings and runs use these entries. Nothing here imports jax before a network is built.
"""

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from lsa_jax import user_files
from lsa_jax.checks import Kind, one_of

if TYPE_CHECKING:
    from lsa_jax.models.model import Model


# Module by family: it has a function of that name, which takes `width_factor`, `num_classes`,
# `parameterization`, `dtype`, `w_std` and `b_std` by keyword, and returns a `Model`. A parameter
# with the name of another field of `config.model` gets that, and `batch_axis` the name of the axis
# over which batches are split, if they are.
FAMILIES = dict.fromkeys(("cnn", "mlp", "wide_resnet"), "lsa_jax.models.classifiers")


def name_kind() -> Kind:
    """Accepts the families, and FILE.py:NAME, a network of the user's own."""
    return Kind(
        lambda value: value in FAMILIES or user_files.is_named(value),
        f"{one_of(*FAMILIES).accepted}, or {user_files.ACCEPTED}, your own",
        str,
    )


def is_own(name: str) -> bool:
    """Whether a name is FILE.py:NAME, a network of the user's own."""
    return name not in FAMILIES


def function(name: str) -> Callable[..., "Model"]:
    """Returns the function of a family, see `FAMILIES`."""
    return getattr(importlib.import_module(FAMILIES[name]), name)


@functools.cache
def own_model(name: str) -> "Model":
    """Returns the network of FILE.py:NAME, in its own parameterisation.

    Raises:
        InputError: there is no such file or name, or it is no network.
    """
    from lsa_jax.models.any_library import as_model

    return as_model(user_files.load("config.model.name", name))
