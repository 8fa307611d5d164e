"""The networks that `config.model.name` can name: one entry each in `FAMILIES`.

Settings and runs use these entries. Nothing here imports jax before a network is built.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lsa_jax.models.model import Model


class Family(NamedTuple):
    """A family of networks: its function, and the fields it takes besides the common ones.

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


def function(name: str) -> Callable[..., "Model"]:
    """Returns the function of a family, see `Family.module`."""
    return getattr(importlib.import_module(FAMILIES[name].module), name)
