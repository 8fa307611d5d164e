"""The claim of figure 2: the percentage of active neurons falls during training."""

from collections.abc import Sequence

from lsa_jax.reporting.claims import Claim, above_chance
from lsa_jax.reporting.statistics import value

MEAN = "mean of the layers"
_CLASSES = 10


def make_claims(noises: Sequence[float], layers: Sequence[str]) -> list[Claim]:
    """Returns the claim for every noise, for the mean of the layers and for each layer."""
    return [
        Claim(
            item=f"change of the percentage of active neurons in training, {layer}"
            + (f", noise {noise:g}" if len(noises) > 1 else ""),
            statistic=value("change", noise=noise, layer=layer),
            below=0.0,
            conditions=(above_chance("the network", classes=_CLASSES, noise=noise, layer=layer),),
            digits=2,
        )
        for noise in noises
        for layer in (MEAN, *layers)
    ]
