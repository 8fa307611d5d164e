"""Claims of the dial from lazy to rich, stated before any run of this experiment."""

import ml_collections

from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import above_chance, enough, shown
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, minus, slope, value

# Points of accuracy by which a lazy network may differ from its linearisation.
MARGIN = 3.0
# A kernel that has moved by less than this counts as unmoved, one that has moved by more as moved.
STILL = 0.02
# Parameters move as 1 / alpha from this scale up: their slope on logarithmic axes is within the
# margin of -1.
SLOPE_MARGIN, LAZY_FROM = 0.15, 16.0
# The NTK parameterisation's kernel moves as width to the power -FALLS, or falls more steeply.
FALLS = 0.25

LABELS = {"ntk": "NTK", "standard": "standard", "mup": "muP"}
_CLASSES = 10
# Expected standard deviations over seeds, of points of accuracy and of slopes, for planning.
_POINTS_SD, _SLOPE_SD = 0.5, 0.02


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims on the curves over output scales, then those over widths."""
    axes = config.sweep
    claims = [c for name in axes.of_scale for c in _scale_claims(axes.output_scale, name)]
    return claims + (
        _width_claims(max(axes.width_factor)) if {"mup", "ntk"} <= {*axes.of_width} else []
    )


def _scale_claims(scales: tuple[float, ...], name: str) -> list[Claim]:
    """Returns the claims on a parameterisation: rich at the least scale, lazy at the largest."""
    smallest, largest = min(scales), max(scales)
    own = {"dial": "output_scale", "parameterization": name}
    where = f", {LABELS[name]} parameterisation"

    def gap(scale: float) -> Statistic:
        network = accuracy(learner="network", output_scale=scale, **own)
        return minus(network, accuracy(learner="linearized", **own))

    def moved(scale: float) -> Statistic:
        return value("kernel_distance", learner="network", output_scale=scale, **own)

    def learns(scale: float) -> tuple:
        at = {"learner": "network", "output_scale": scale, **own}
        return (above_chance(f"the network at alpha {scale:g}", classes=_CLASSES, **at),)

    scales_differ = enough("output_scale", 2, "two output scales", learner="network", **own)
    beats = Claim(
        item=f"points of accuracy at alpha {smallest:g}, network minus its linearisation{where}",
        statistic=gap(smallest),
        above=0.0,
        conditions=(*learns(smallest), scales_differ),
        digits=2,
    )
    # Where both agree at every output scale, agreement is no sign of laziness.
    scale_matters = shown(beats, "the output scale makes a difference")
    return [
        beats,
        Claim(
            item=f"points of accuracy at alpha {largest:g}, network minus its linearisation, "
            f"within {MARGIN:g}{where}",
            statistic=gap(largest),
            paper=0.0,
            within=MARGIN,
            seed_sd=_POINTS_SD,
            conditions=(*learns(largest), scale_matters),
            digits=2,
        ),
        Claim(
            item=f"distance of the kernel from its start at alpha {largest:g}{where}",
            statistic=moved(largest),
            below=STILL,
            conditions=(scale_matters,),
        ),
        Claim(
            item=f"distance of the kernel at alpha {smallest:g} minus that at {largest:g}{where}",
            statistic=minus(moved(smallest), moved(largest)),
            above=STILL,
            conditions=(*learns(smallest), scales_differ),
        ),
        _lazy_slope(scales, own, where, scale_matters),
    ]


def _lazy_slope(
    scales: tuple[float, ...], own: dict[str, str], where: str, matters: Condition
) -> Claim:
    """Returns the claim that parameters move as 1 / alpha from `LAZY_FROM` up."""
    large = tuple(scale for scale in scales if scale >= LAZY_FROM)
    lazy = {"learner": "network", "output_scale": large, **own}
    return Claim(
        item=f"slope of log weight movement against log alpha, from {LAZY_FROM:g} up, within "
        f"{SLOPE_MARGIN:g}{where}",
        statistic=slope("weight_movement", "output_scale", **lazy),
        paper=-1.0,
        within=SLOPE_MARGIN,
        seed_sd=_SLOPE_SD,
        conditions=(matters, enough("output_scale", 3, "three output scales", **lazy)),
    )


def _width_claims(widest: int) -> list[Claim]:
    """Returns the claims on muP compared with the NTK parameterisation."""
    own = {"dial": "width", "learner": "network"}
    mup, ntk = ({**own, "parameterization": name} for name in ("mup", "ntk"))
    at = {"width_factor": widest}
    guesses = [
        above_chance(f"the network in {label}", classes=_CLASSES, **one, **at)
        for label, one in (("muP", mup), ("the NTK parameterisation", ntk))
    ]
    return [
        Claim(
            item=f"points of accuracy at width factor {widest:g}, muP minus NTK parameterisation",
            statistic=minus(accuracy(**mup, **at), accuracy(**ntk, **at)),
            above=0.0,
            conditions=tuple(guesses),
            digits=2,
        ),
        Claim(
            item="slope of log kernel distance against log width, NTK parameterisation",
            statistic=slope("kernel_distance", "width_factor", **ntk),
            below=-FALLS,
            conditions=(
                above_chance("the network at all widths", classes=_CLASSES, **ntk),
                enough("width_factor", 3, "three widths", **ntk),
            ),
        ),
    ]
