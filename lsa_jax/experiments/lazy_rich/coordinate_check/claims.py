"""Claims of the coordinate check, stated before any run.

In muP no layer's change depends on the width; in the standard parameterisation the outputs' change
grows with it; in the NTK parameterisation SGD moves features the less the wider the network is.
"""

from collections.abc import Sequence

import ml_collections
import pandas as pd

from lsa_jax.reporting.claims import Claim, enough, shown
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import mean_of, slope

# Bounds on slopes of log change against log width.
FLAT, STEEP = 0.15, 0.3

_ITEM = "slope of log change against log width"
# Two widths give a slope to any noise.
_WIDTHS = enough("width_factor", 3, "three widths or more")


def layers(table: pd.DataFrame) -> list[str]:
    """Returns the columns of changes, the outputs' last."""
    found = [name for name in table if name.startswith("change/")]
    return sorted(found, key=lambda name: name == "change/outputs")


def make_claims(config: ml_collections.ConfigDict, layers: Sequence[str]) -> list[Claim]:
    """Returns the claims of each update rule, about the changes of `layers`."""
    return [claim for rule in config.sweep.optimizer for claim in _claims_of(rule, layers)]


def _claims_of(rule: str, layers: Sequence[str]) -> list[Claim]:
    def slope_of(layer: str, name: str) -> Statistic:
        return slope(layer, "width_factor", optimizer=rule, parameterization=name)

    control = Claim(
        item=f"{_ITEM}, standard, {rule}, outputs",
        statistic=slope_of(layers[-1], "standard"),
        above=STEEP,
        conditions=(_WIDTHS,),
    )
    # Where all parameterisations are alike, it is not muP that makes the slope flat.
    conditions = (_WIDTHS, shown(control, "the standard parameterisation is not flat"))
    flat = [
        Claim(
            item=f"{_ITEM}, muP, {rule}, {layer.removeprefix('change/')}, within {FLAT:g}",
            statistic=slope_of(layer, "mup"),
            paper=0.0,
            within=FLAT,
            seed_sd=0.05,
            conditions=conditions,
        )
        for layer in layers
    ]
    if rule != "sgd":
        return [control, *flat]
    falls = Claim(
        item=f"{_ITEM}, NTK, sgd, mean of features",
        statistic=mean_of([slope_of(layer, "ntk") for layer in layers[:-1]]),
        below=-STEEP,
        conditions=conditions,
    )
    return [control, *flat, falls]
