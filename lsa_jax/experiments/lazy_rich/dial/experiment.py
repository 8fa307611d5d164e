"""From lazy to rich: a network on noisy digits, by its output scale and by its width.

Two dials turn a network into its linearisation. The output scale alpha trains alpha (f - f_0)
(`models.scaled`): large is lazy. The width does in the NTK parameterisation, and does not in muP.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax import kernels, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.dial.settings import MEASURES, SETTINGS
from lsa_jax.experiments.lazy_rich.digits import TEST, TRAIN, DigitsTask, load
from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import Claim, above_chance, decide_all, enough, shown
from lsa_jax.reporting.courses import is_measure
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, subplots
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import accuracy, minus, slope, value
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, Progress, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point


def rate_of(config: Config) -> float:
    """Returns a point's learning rate.

    The speed at which outputs move does not depend on an output scale from 1 up. Below 1 the loss
    curves as 1 / alpha, so the rate falls with alpha. In the standard parameterisation the kernel
    grows with the width, so the rate falls with it; in the other two it stays.
    """
    rate = config.rates[config.parameterization] * min(1.0, config.output_scale)
    return rate / config.width_factor if config.parameterization == "standard" else rate


def _solve(config: Config, task: DigitsTask, scratch: Path) -> Outcome:
    """Fits the exact regression with the finite NTK of the network at its start."""
    model = digits.build(config)
    train, test = (
        digits.whole(config, which, split)
        for which, split in ((TRAIN, task.train), (TEST, task.test))
    )
    kernel = kernels.finite_kernel(model.apply, digits.initial(config, model, task))
    gram = functools.partial(kernels.gram, kernel, memory_limit=config.kernel_memory)
    scratch.mkdir(parents=True, exist_ok=True)
    gram_train = gram(train.inputs, path=scratch / "train.npy")
    gram_test = gram(test.inputs, train.inputs, path=scratch / "test.npy")
    fit = kernels.regress(gram_train, train.targets, gram_test, ridge=config.ridge)
    right = np.asarray(training.is_correct(fit.predictions, test.targets)) == 1
    return Outcome({"test_accuracy": float(right.mean())}, [], outcomes=Outcomes(right))


def with_means(metrics: dict[str, Any]) -> dict[str, Any]:
    """Returns metrics with the mean over layers of each measure that has a number a layer."""
    of_layers: dict[str, list[float]] = {}
    for name, number in metrics.items():
        measure, _, layer = name.partition("/")
        if layer and is_measure(name):
            of_layers.setdefault(measure, []).append(number)
    return metrics | {name: sum(values) / len(values) for name, values in of_layers.items()}


def run(
    group: list[Point], data: dict[str, DigitsTask], directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains a group's points as replicas, or solves for a single one exactly."""
    task, config = digits.task_of(group[0], data), group[0].config
    if config.learner == "ntk_finite":
        outcomes = with_test([_solve(config, task, directory / SCRATCH)], task.test)
    else:
        rates, linear = [rate_of(point.config) for point in group], config.learner == "linearized"
        outcomes = digits.train(
            group,
            task,
            rates,
            directory,
            progress,
            output_scale=float("inf") if linear else config.output_scale,
            measures=() if linear else config.measures,  # a linearisation's kernel stays as it is
        )
    targets = task.test.targets
    sizes = {"num_test": len(targets), "chance": best_constant_accuracy(targets)}
    return [one._replace(metrics=with_means(one.metrics) | sizes) for one in outcomes]


# --- claims -------------------------------------------------------------------------------------

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


def make_claims(config: Config) -> list[Claim]:
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


# --- report -------------------------------------------------------------------------------------

_COLORS = dict(zip(LABELS, PALETTE, strict=False))
_PANELS = (
    ("test_accuracy", 100.0, "test accuracy (%)", "linear"),
    ("kernel_distance", 1.0, "kernel distance from the start", "log"),
    ("target_alignment", 1.0, "kernel's alignment with targets", "linear"),
    ("weight_movement", 1.0, "weight movement, mean of layers", "log"),
    ("agop_correlation", 1.0, "W^T W and gradient outer product", "linear"),
)
# Rows of panels: dial, horizontal axis and its label.
_DIALS = (
    ("output_scale", "output_scale", "output scale alpha: rich to lazy"),
    ("width", "width_factor", "width factor, alpha = 1"),
)


def _table(table: pd.DataFrame, dial: str, against: str) -> pd.DataFrame:
    """Returns one row a parameterisation, learner and setting: accuracies and measures."""
    rows = table[table["dial"] == dial]
    keys = ["parameterization", "learner", against]
    columns = [name for name in ("train_accuracy", "test_accuracy", *MEASURES) if name in rows]
    shown = rows.assign(**{against: rows[against].where(rows["learner"] == "network", np.inf)})
    cells = shown.groupby(keys, sort=False)[columns].agg(lambda v: mean_and_spread(v, ".3g"))
    return cells.reset_index()


def draw(table: pd.DataFrame) -> Any:
    """Draws accuracy and measures against both dials; bands are ± 1 standard deviation."""
    figure, grid = subplots(2, len(_PANELS), 3.4, 3.3)
    for axes, (dial, against, label) in zip(grid, _DIALS, strict=True):
        rows = table[(table["dial"] == dial) & (table["learner"] == "network")]
        for axis, (column, factor, words, scale) in zip(axes, _PANELS, strict=True):
            for name, own in rows.groupby("parameterization", sort=False):
                named = LABELS[name] if dial == "width" else None  # one legend for both rows
                style = {"color": _COLORS[name], "label": named, "marker": "o", "markersize": 4}
                draw_mean(axis, factor * own[column], own[against], **style)
            mark_logarithmic(axis, rows[against])
            axis.set(yscale=scale, xlabel=label, ylabel=words)
    for learner, dashes, words in (
        ("linearized", "--", "linearised, trained likewise"),
        ("ntk_finite", ":", "NTK at the start, exact"),
    ):
        own = table[(table["dial"] == "output_scale") & (table["learner"] == learner)]
        for name, rows in own.groupby("parameterization", sort=False):
            style = {"color": _COLORS[name], "linestyle": dashes, "lw": 1.4}
            grid[0, 0].axhline(100 * rows["test_accuracy"].mean(), **style)
        grid[0, 0].plot([], [], color="black", linestyle=dashes, label=words)
    for axis in grid[:, 0]:
        axis.set_ylim(0, 103)
    grid[0, 0].legend(frameon=False, fontsize=8, loc="center right")
    grid[1, 0].legend(frameon=False, fontsize=8, title="parameterisation")
    return figure


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns tables, claims and the figure of both dials."""
    table = results[results["status"] == "ok"].copy()
    runs = Runs.of(SETTINGS.sweep(config), results, outcomes.read(workdir, table["id"]))
    return Report(
        title=config.title,
        tables=[
            ("By output scale, at width factor 1", _table(table, "output_scale", "output_scale")),
            ("By width, at an output scale of 1", _table(table, "width", "width_factor")),
        ],
        claims=decide_all(make_claims(config), runs),
        figures={"dial": functools.partial(draw, table)} if len(table) else {},
        notes=[
            f"Means over {table['seed'].nunique()} seed(s), ± their standard deviation, at the end "
            "of training; weight movement and correlations are means over layers. A row at "
            "infinite output scale is the linearisation, or its exact regression. At width factor "
            "1 muP is the standard parameterisation."
        ],
    )


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    varying=lambda config: () if config.learner == "ntk_finite" else ("seed",),
    in_parts=True,
)
