"""Claims of the dial from lazy to rich, stated before any run of this experiment."""

import ml_collections

from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting.claims import Claim, above_chance, enough, shown
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

_CLASSES = 10
# Expected standard deviations over seeds, of points of accuracy and of slopes, for planning.
_POINTS_SD, _SLOPE_SD = 0.5, 0.02


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims on the curves over output scales, then on the curves over widths."""
    axes = config.sweep
    claims = [c for name in axes.of_scale for c in _scale_claims(axes.output_scale, name)]
    has_both = {"mup", "ntk"} <= {*axes.of_width}
    return claims + (_width_claims(max(axes.width_factor)) if has_both else [])


def _scale_claims(scales: tuple[float, ...], name: str) -> list[Claim]:
    """Returns claims on a parameterisation: rich at the least scale, lazy at the largest."""
    low, high = min(scales), max(scales)
    own, where = (
        {"dial": "output_scale", "parameterization": name},
        f"{LABELS[name]} parameterisation",
    )
    network = {"learner": "network", **own}
    rich, stiff = ({"output_scale": scale, **network} for scale in (low, high))
    lazy = {"output_scale": tuple(scale for scale in scales if scale >= LAZY_FROM), **network}
    linear = accuracy(learner="linearized", **own)
    learns_rich, learns_stiff = (
        above_chance(f"the network at alpha {at['output_scale']:g}", classes=_CLASSES, **at)
        for at in (rich, stiff)
    )
    differ = enough("output_scale", 2, "two output scales", **network)
    beats = Claim(
        item=f"points of accuracy at alpha {low:g}, network minus its linearisation, {where}",
        statistic=minus(accuracy(**rich), linear),
        above=0.0,
        conditions=(learns_rich, differ),
        digits=2,
    )
    # Where both agree at every output scale, agreement is no sign of laziness.
    scale_matters = shown(beats, "the output scale makes a difference")
    return [
        beats,
        Claim(
            item=f"points of accuracy at alpha {high:g}, network minus its linearisation, "
            f"within {MARGIN:g}, {where}",
            statistic=minus(accuracy(**stiff), linear),
            paper=0.0,
            within=MARGIN,
            seed_sd=_POINTS_SD,
            conditions=(learns_stiff, scale_matters),
            digits=2,
        ),
        Claim(
            item=f"distance of the kernel from its start at alpha {high:g}, {where}",
            statistic=value("kernel_distance", **stiff),
            below=STILL,
            conditions=(scale_matters,),
        ),
        Claim(
            item=f"distance of the kernel at alpha {low:g} minus that at {high:g}, {where}",
            statistic=minus(value("kernel_distance", **rich), value("kernel_distance", **stiff)),
            above=STILL,
            conditions=(learns_rich, differ),
        ),
        Claim(
            item=f"slope of log weight movement against log alpha, from {LAZY_FROM:g} up, within "
            f"{SLOPE_MARGIN:g}, {where}",
            statistic=slope("weight_movement", "output_scale", **lazy),
            paper=-1.0,
            within=SLOPE_MARGIN,
            seed_sd=_SLOPE_SD,
            conditions=(scale_matters, enough("output_scale", 3, "three output scales", **lazy)),
        ),
    ]


def _width_claims(widest: int) -> list[Claim]:
    """Returns the claims on muP compared with the NTK parameterisation."""
    mup, ntk = (
        {"dial": "width", "learner": "network", "parameterization": name} for name in ("mup", "ntk")
    )
    at = {"width_factor": widest}
    return [
        Claim(
            item=f"points of accuracy at width factor {widest:g}, muP minus NTK parameterisation",
            statistic=minus(accuracy(**mup, **at), accuracy(**ntk, **at)),
            above=0.0,
            conditions=(
                above_chance("the network in muP", classes=_CLASSES, **mup, **at),
                above_chance(
                    "the network in the NTK parameterisation", classes=_CLASSES, **ntk, **at
                ),
            ),
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
