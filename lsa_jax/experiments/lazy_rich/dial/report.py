"""The report on the dial: accuracy and measures against output scale and width, with the claims.

The claims were stated before any run of this experiment:

* at the largest output scale the network is within `MARGIN` points of its trained linearisation,
  its kernel has moved by less than `STILL`, and parameters move as 1 / alpha from 16 up;
* at the smallest it beats its linearisation, and its kernel moved by more than at the largest;
* at the largest width muP beats the NTK parameterisation, whose kernel moves less the wider it is:
  the slope of its log distance against log width is below -`FALLS`.

That network and linearisation agree says nothing where they do at every output scale, nor near
chance; nor does a kernel that moves under a network that guesses. A slope takes three settings or
more, and all seeds at each of them.
"""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.dial.settings import MEASURES, sweep
from lsa_jax.experiments.lazy_rich.fields import PARAMETERIZATIONS
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import doubts, intervals
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, tidy
from lsa_jax.reporting.report import Claim, Report

MARGIN = 3.0
STILL = 0.02
# How near to -1 the slope of log movement against log alpha has to be, from this scale up.
SLOPE_MARGIN, LAZY_FROM = 0.15, 16.0
FALLS = 0.25
FEWEST_SETTINGS = 3

_COLORS = dict(zip(PARAMETERIZATIONS, PALETTE, strict=False))
_LABELS = {"ntk": "NTK", "standard": "standard", "mup": "muP"}
_CLASSES = 10
_SETTING = ["parameterization", "learner", "output_scale", "width_factor"]
_NUMBERS = ["test_accuracy", "kernel_distance", "weight_movement"]


def _of(table: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    """Returns the rows with these settings, by seed."""
    for name, value in wanted.items():
        table = table[table[name] == value]
    return table.set_index("seed")


def _gap(one: pd.DataFrame, other: pd.DataFrame) -> tuple[pd.Series, float]:
    """Returns the difference of accuracies in points, by seed, and the error of test examples."""
    if one.empty or other.empty:
        return pd.Series(dtype=float), 0.0
    first, second = one["test_accuracy"], other["test_accuracy"]
    error = intervals.difference_error(
        float(first.mean()), float(second.mean()), int(one["num_test"].iloc[0])
    )
    return 100 * (first - second).dropna(), 100 * error


def _warning(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    return deciding.chance_warning(
        float(rows["test_accuracy"].mean()),
        _CLASSES,
        int(rows["num_test"].iloc[0]),
        deciding.largest_of(rows),
    )


def _doubts(config: ml_collections.ConfigDict, rows: pd.DataFrame, **wanted: object) -> dict:
    """Returns what speaks against the numbers of some points, for `doubted`.

    Args:
        config: of the sweep.
        rows: results of the points.
        **wanted: their settings; of several values, a tuple.
    """
    points = [
        point
        for point in sweep(config)
        if all(point[n] in (v if isinstance(v, tuple) else (v,)) for n, v in wanted.items())
    ]
    rows = rows[rows["seed"].isin(config.sweep.seed)]
    networks = [point for point in points if point["learner"] == "network"]
    linear = [point for point in points if point["learner"] == "linearized"]
    lost = [
        doubts.lost_runs(networks, rows, _NUMBERS),
        doubts.lost_runs(linear, rows, _NUMBERS[:1]),
    ]
    sample = doubts.no_sample(rows, _NUMBERS, _SETTING)
    return {"against": lost, "refuted": [sample]}


def _too_few(settings: pd.Series) -> str:
    few = settings.nunique() < FEWEST_SETTINGS
    return f"a slope takes {FEWEST_SETTINGS} settings or more" if few else ""


def scale_claims(config: ml_collections.ConfigDict, table: pd.DataFrame, name: str) -> list[Claim]:
    """Returns the claims on one parameterisation's curve over output scales.

    Arguments as in `make_claims`.
    """
    rows = table[(table["dial"] == "output_scale") & (table["parameterization"] == name)]
    rows = rows[rows["learner"].isin(("network", "linearized"))]
    networks, linear = _of(rows, learner="network"), _of(rows, learner="linearized")
    least, most = min(config.sweep.output_scale), max(config.sweep.output_scale)
    rich, lazy = (networks[networks["output_scale"] == scale] for scale in (least, most))
    where = f", {_LABELS[name]} parameterisation"
    own = {"dial": "output_scale", "parameterization": name}
    against = _doubts(config, rows, learner=("network", "linearized"), **own)
    one = "it would take 2 output scales or more" if least == most else ""
    against["refuted"].append(one)
    gain, error = _gap(rich, linear)
    beats = deciding.compare(
        f"points of accuracy at alpha {least:g}, network minus its linearisation{where}",
        "above 0",
        gain,
        above=0.0,
        examples_error=error,
        unless=_warning(rich),
        digits=2,
    )
    beats = doubts.doubted(beats, **against)
    tied = "" if beats.status == "shown" else "no output scale is shown to make a difference"
    near, error = _gap(lazy, linear)
    moved = (rich["kernel_distance"] - lazy["kernel_distance"]).dropna()
    claims = [
        deciding.agree(
            f"points of accuracy at alpha {most:g}, network minus its linearisation, within "
            f"{MARGIN:g}{where}",
            0.0,
            near,
            MARGIN,
            examples_error=error,
            unless=_warning(lazy) or tied,
            digits=2,
        ),
        deciding.compare(
            f"distance of the kernel from its start at alpha {most:g}{where}",
            f"below {STILL:g}",
            lazy["kernel_distance"].dropna(),
            below=STILL,
            unless=tied,
        ),
        deciding.compare(
            f"the same at alpha {least:g}, more than at {most:g}{where}",
            f"above {STILL:g}",
            moved,
            above=STILL,
            unless=_warning(rich),
        ),
    ]
    claims = [doubts.doubted(claim, **against) for claim in claims]
    return [beats, *claims, _lazy_slope(networks, where, tied, against)]


def _lazy_slope(networks: pd.DataFrame, where: str, tied: str, against: dict) -> Claim:
    """Returns the claim that parameters move as 1 / alpha from `LAZY_FROM` up."""
    large = networks[networks["output_scale"] >= LAZY_FROM]
    claim = deciding.agree(
        f"slope of log weight movement against log alpha, from {LAZY_FROM:g} up, within "
        f"{SLOPE_MARGIN:g}{where}",
        -1.0,
        _slopes(large, "output_scale"),
        SLOPE_MARGIN,
        unless=tied,
    )
    few = _too_few(large["output_scale"])
    return doubts.doubted(claim, against["against"], [*against["refuted"], few])


def _slopes(rows: pd.DataFrame, against: str, of: str = "weight_movement") -> list[float]:
    """Returns a slope a seed, of the logarithms; none of one that has no number somewhere."""
    slopes, settings = [], rows[against].nunique()
    for _, own in rows.groupby(level="seed"):
        own = own[(own[of] > 0) & np.isfinite(own[of])]
        if own[against].nunique() == settings > 1:
            slopes.append(float(np.polyfit(np.log(own[against]), np.log(own[of]), 1)[0]))
    return slopes


def width_claims(config: ml_collections.ConfigDict, table: pd.DataFrame) -> list[Claim]:
    """Returns the claims on the curves over widths.

    Arguments as in `make_claims`.
    """
    rows = table[(table["dial"] == "width") & table["parameterization"].isin(("mup", "ntk"))]
    widest = max(config.sweep.width_factor)
    last = rows[rows["width_factor"] == widest]
    mup, ntk = (_of(last, parameterization=name) for name in ("mup", "ntk"))
    gain, error = _gap(mup, ntk)
    beats = deciding.compare(
        f"points of accuracy at width factor {widest:g}, muP minus NTK parameterisation",
        "above 0",
        gain,
        above=0.0,
        examples_error=error,
        unless=_warning(mup) or _warning(ntk),
        digits=2,
    )
    both = {"parameterization": ("mup", "ntk"), "width_factor": widest}
    beats = doubts.doubted(beats, **_doubts(config, last, dial="width", **both))
    own = _of(rows, parameterization="ntk")
    guesses = [_warning(at) for _, at in own.groupby("width_factor")]
    claim = deciding.compare(
        "slope of log kernel distance against log width, NTK parameterisation",
        f"below {-FALLS:g}",
        _slopes(own, "width_factor", "kernel_distance"),
        below=-FALLS,
        unless=next(filter(None, guesses), ""),
    )
    against = _doubts(config, own.reset_index(), dial="width", parameterization="ntk")
    refuted = [*against["refuted"], _too_few(own["width_factor"])]
    return [beats, doubts.doubted(claim, against["against"], refuted)]


def make_claims(config: ml_collections.ConfigDict, table: pd.DataFrame) -> list[Claim]:
    """Returns all claims of a sweep.

    Args:
        config: of the sweep.
        table: its results, without those that failed.
    """
    own = table[(table["dial"] == "output_scale") & (table["learner"] == "network")]
    scales = [scale_claims(config, table, name) for name in own["parameterization"].unique()]
    widths = width_claims(config, table) if (table["dial"] == "width").any() else []
    return [*sum(scales, []), *widths]


def _table(table: pd.DataFrame, dial: str, against: str) -> pd.DataFrame:
    """Returns one row a parameterisation, learner and setting: accuracies and measures."""
    rows = table[table["dial"] == dial]
    keys = ["parameterization", "learner", against]
    columns = [name for name in ("train_accuracy", "test_accuracy", *MEASURES) if name in rows]
    shown = rows.assign(**{against: rows[against].where(rows["learner"] == "network", np.inf)})
    cells = shown.groupby(keys, sort=False)[columns].agg(lambda v: deciding.cell(v, ".3g"))
    return cells.reset_index()


_PANELS = (
    ("test_accuracy", 100.0, "test accuracy (%)", False),
    ("kernel_distance", 1.0, "kernel distance from the start", True),
    ("target_alignment", 1.0, "kernel's alignment with targets", False),
    ("weight_movement", 1.0, "weight movement, mean of layers", True),
    ("agop_correlation", 1.0, "W^T W and gradient outer product", False),
)


def _draw_row(axes: Any, rows: pd.DataFrame, against: str) -> None:
    """Draws all panels against one dial."""
    networks = rows[rows["learner"] == "network"]
    for axis, (column, factor, label, logarithmic) in zip(axes, _PANELS, strict=True):
        for name, own in networks.groupby("parameterization", sort=False):
            named = None if against == "output_scale" else _LABELS[name]
            style = {"color": _COLORS[name], "label": named, "marker": "o"}
            draw_mean(axis, factor * own[column], own[against], **style, markersize=4)
        mark_logarithmic(axis, networks[against])
        if logarithmic:
            axis.set_yscale("log")
        axis.set_ylabel(label)
        tidy(axis)


def draw(table: pd.DataFrame) -> Any:
    """Draws accuracy and measures against both dials; bands are ± 1 standard deviation."""
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, len(_PANELS), figsize=(17, 6.6), layout="constrained")
    dials = (("output_scale", "output_scale", "output scale alpha: rich to lazy"),)
    dials += (("width", "width_factor", "width factor, alpha = 1"),)
    for axes, (dial, against, label) in zip(grid, dials, strict=True):
        rows = table[table["dial"] == dial]
        _draw_row(axes, rows, against)
        for axis in axes:
            axis.set_xlabel(label)
    scales = table[table["dial"] == "output_scale"]
    for learner, dashes, words in (
        ("linearized", "--", "linearised, trained likewise"),
        ("ntk_finite", ":", "NTK at the start, exact"),
    ):
        own = scales[scales["learner"] == learner]
        for name, rows in own.groupby("parameterization", sort=False):
            style = {"color": _COLORS[name], "linestyle": dashes, "lw": 1.4}
            grid[0, 0].axhline(100 * rows["test_accuracy"].mean(), **style)
        grid[0, 0].plot([], [], color="black", linestyle=dashes, label=words)
    for axis in grid[:, 0]:
        axis.set_ylim(0, 103)
    grid[0, 0].legend(frameon=False, fontsize=8, loc="center right")
    grid[1, 0].legend(frameon=False, fontsize=8, title="parameterisation")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns tables, claims and the figure of both dials."""
    del workdir  # everything is in the results
    table = results[results["status"] == "ok"].copy()
    return Report(
        title=config.title,
        tables=[
            ("By output scale, at width factor 1", _table(table, "output_scale", "output_scale")),
            ("By width, at an output scale of 1", _table(table, "width", "width_factor")),
        ],
        claims=make_claims(config, table) if len(table) else [],
        figures={"dial": functools.partial(draw, table)} if len(table) else {},
        notes=[
            f"Means over {table['seed'].nunique()} seed(s), ± their standard deviation, at the end "
            "of training; weight movement and "
            "correlations are means over layers. A row at infinite output scale is the "
            "linearisation, or its exact regression. At width factor 1 muP is the standard "
            "parameterisation."
        ],
    )
