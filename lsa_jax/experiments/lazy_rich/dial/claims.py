"""Claims of the dial from lazy to rich, stated before any run of this experiment."""

import ml_collections

from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import above_chance, enough, shown
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, minus, slope, value

# Points of accuracy by which a lazy network may differ from its linearisation.
MARGIN = 3.0
# A kernel that has moved by less than this is still.
STILL = 0.02
# Movement of parameters falls as 1 / alpha, to within the margin, from this scale up.
SLOPE_MARGIN, LAZY_FROM = 0.15, 16.0
# The NTK parameterisation's kernel moves less the wider it is, at least by this exponent.
FALLS = 0.25

LABELS = {"ntk": "NTK", "standard": "standard", "mup": "muP"}
_CLASSES = 10


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims on the curves over output scales, then those over widths."""
    axes = config.sweep
    claims = [c for name in axes.of_scale for c in _scale_claims(axes.output_scale, name)]
    return claims + (
        _width_claims(max(axes.width_factor)) if {"mup", "ntk"} <= {*axes.of_width} else []
    )


def _scale_claims(scales: tuple[float, ...], name: str) -> list[Claim]:
    """Returns the claims on a parameterisation: rich at the least scale, lazy at the largest."""
    least, most = min(scales), max(scales)
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
        item=f"points of accuracy at alpha {least:g}, network minus its linearisation{where}",
        statistic=gap(least),
        above=0.0,
        conditions=(*learns(least), scales_differ),
        digits=2,
    )
    # Where both agree at every output scale, agreement is no sign of laziness.
    matters = shown(beats, "the output scale makes a difference")
    return [
        beats,
        Claim(
            item=f"points of accuracy at alpha {most:g}, network minus its linearisation, within "
            f"{MARGIN:g}{where}",
            statistic=gap(most),
            paper=0.0,
            within=MARGIN,
            seed_sd=0.5,
            conditions=(*learns(most), matters),
            digits=2,
        ),
        Claim(
            item=f"distance of the kernel from its start at alpha {most:g}{where}",
            statistic=moved(most),
            below=STILL,
            conditions=(matters,),
        ),
        Claim(
            item=f"the same at alpha {least:g}, more than at {most:g}{where}",
            statistic=minus(moved(least), moved(most)),
            above=STILL,
            conditions=(*learns(least), scales_differ),
        ),
        _lazy_slope(scales, own, where, matters),
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
        seed_sd=0.02,
        conditions=(matters, enough("output_scale", 3, "three output scales", **lazy)),
    )


def _width_claims(widest: int) -> list[Claim]:
    """Returns the claims on muP beside the NTK parameterisation."""
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
                above_chance("the network", classes=_CLASSES, **ntk),
                enough("width_factor", 3, "three widths", **ntk),
            ),
        ),
    ]
