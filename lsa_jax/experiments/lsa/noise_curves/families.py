"""The networks that `config.model.name` can name: entries of `FAMILIES`, or FILE.py:NAME.

Settings and runs use these entries. Nothing here imports jax before a network is built.
"""

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from lsa_jax import user_files
from lsa_jax.checks import Kind, one_of

if TYPE_CHECKING:
    from lsa_jax.models.model import Model


class Family(NamedTuple):
    """A family of networks.

    Attributes:
        module: has a function of the family's name, which takes `width_factor`, `num_classes`,
            `parameterization`, `dtype`, `w_std` and `b_std` by keyword, and returns a `Model`.
        fields: further fields of `config.model` that it takes.
        batch_axis: whether it also takes the name of the axis over which batches are split.
    """

    module: str
    fields: tuple[str, ...] = ()
    batch_axis: bool = False


FAMILIES = {
    "cnn": Family("lsa_jax.models.classifiers", ("channels", "window", "stride")),
    "mlp": Family("lsa_jax.models.classifiers", ("widths",)),
    "wide_resnet": Family(
        "lsa_jax.models.classifiers", ("depth", "norm", "pool_window"), batch_axis=True
    ),
}


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
    """Returns the function of a family, see `Family.module`."""
    return getattr(importlib.import_module(FAMILIES[name].module), name)


@functools.cache
def own_model(name: str) -> "Model":
    """Returns the network of FILE.py:NAME, in its own parameterisation.

    Raises:
        InputError: there is no such file or name, or it is no network.
    """
    from lsa_jax.models.any_library import as_model

    return as_model(user_files.load("config.model.name", name))
