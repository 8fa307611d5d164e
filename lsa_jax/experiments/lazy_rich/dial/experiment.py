"""From lazy to rich: a network on noisy digits, by its output scale and by its width.

Two dials turn a network into its linearisation. The output scale alpha trains alpha (f - f_0)
(`models.scaled`): large is lazy. The width does in the NTK parameterisation, and does not in muP.
"""

import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from lsa_jax import backend, kernels, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.diagnosis.runs import RIDGES, Pair, fit_kernel, linearization_error
from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.dial.settings import BY_SCALE, MEASURES
from lsa_jax.experiments.lazy_rich.digits import TEST, TRAIN, ImageTask, load
from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting.claims import Claim, above_chance, enough, shown
from lsa_jax.reporting.courses import is_measure
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, subplots
from lsa_jax.reporting.grades import answers
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import accuracy, minus, slope, value
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress, with_test


def rate_of(config: Config) -> float:
    """Returns a point's learning rate.

    The speed at which outputs move does not depend on an output scale from 1 up. Below 1 the rate
    falls as alpha^(2 - 2 / L) for L layers of weights (Atanasov et al., 2024, in the units of
    `models.scaled`; `configs/theory/rate_law.py` measures it). In the standard parameterisation the
    kernel grows with the width, so the rate falls with it; in the other two it stays.
    """
    fall = min(1.0, config.output_scale) ** (2 - 2 / digits.num_layers(config))
    rate = config.rates[config.parameterization] * fall
    return rate / config.width_factor if config.parameterization == "standard" else rate


def _solve(config: Config, task: ImageTask, params: Any) -> Outcome:
    """Fits the exact regression with the finite NTK of the network at these parameters."""
    train, test = (digits.whole(config, which, task[which]) for which in (TRAIN, TEST))
    kernel = kernels.finite_kernel(digits.build(config).apply, params)
    gram = functools.partial(kernels.gram, kernel, memory_limit=config.kernel_memory)
    matrices = gram(train.inputs), gram(test.inputs, train.inputs)
    ridges = RIDGES if config.ridge is None else (config.ridge,)
    fit = fit_kernel(*matrices, train.targets, ridges)
    right = np.asarray(training.is_correct(fit.outputs, test.targets)) == 1
    metrics = {"test_accuracy": float(right.mean()), "ridge": fit.ridge, "left_out": fit.left_out}
    return Outcome(metrics, [], outcomes=Outcomes(right))


def with_means(metrics: dict[str, Any]) -> dict[str, Any]:
    """Returns metrics with the mean over layers of each measure that has a number a layer."""
    of_layers: dict[str, list[float]] = {}
    for name, number in metrics.items():
        measure, _, layer = name.partition("/")
        if layer and is_measure(name):
            of_layers.setdefault(measure, []).append(number)
    return metrics | {name: sum(values) / len(values) for name, values in of_layers.items()}


def _train(
    group: list[Point], task: ImageTask, directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains one network, or linearisation, a seed; solves with the networks' kernels after it."""
    config, places = group[0].config, {point.config.seed: point for point in group}
    linear, share = config.learner == "linearized", len(places) / len(group)
    params, trained = digits.train(
        list(places.values()),
        task,
        [rate_of(config)] * len(places),
        directory,
        lambda fraction: progress(share * fraction),
        output_scale=float("inf") if linear else config.output_scale,
        measures=() if linear else config.measures,  # a linearisation's kernel stays as it is
    )
    outcomes, test = [], np.asarray(digits.whole(config, TEST, task.test).inputs)
    for done, point in enumerate(group):
        place = list(places).index(point.config.seed)
        outcome, own = trained[place], jax.tree.map(lambda leaf, at=place: leaf[at], params)
        if outcome.status == "ok" and point.config.learner == "ntk_trained":
            outcome = _solve(point.config, task, own)
            progress(share + (1 - share) * (done + 1) / len(group))
        elif outcome.status == "ok" and not linear and backend.dry_run() is None:
            model = digits.build(point.config)
            pair = Pair(digits.initial(point.config, model, task), own)
            error = {"linearization_error": linearization_error(model, pair, test, centred=True)}
            outcome = outcome._replace(metrics=outcome.metrics | error)
        outcomes.append(outcome)
    return outcomes


def run(
    group: list[Point], data: dict[str, ImageTask], directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains a group's points as replicas, or solves for a single one exactly."""
    task, config = digits.task_of(group[0], data), group[0].config
    if config.learner == "ntk_finite":
        start = digits.initial(config, digits.build(config), task)
        outcomes = [_solve(config, task, start)]
    else:
        outcomes = _train(group, task, directory, progress)
    targets = task.test.targets
    sizes = {"num_test": len(targets), "chance": best_constant_accuracy(targets)}
    outcomes = [one._replace(metrics=with_means(one.metrics) | sizes) for one in outcomes]
    return with_test(outcomes, task.test)


def varying(config: Config) -> tuple[str, ...]:
    """Returns the fields in which points of a group may differ: a kernel follows its network."""
    by_learner = {"ntk_finite": (), "linearized": ("seed",)}
    return by_learner.get(config.learner, ("learner", "seed"))


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
    low, high, where = min(scales), max(scales), f"{LABELS[name]} parameterisation"
    own = {"dial": "output_scale", "parameterization": name}
    network = {"learner": "network", **own}
    rich, stiff = ({"output_scale": scale, **network} for scale in (low, high))
    lazy = {"output_scale": tuple(scale for scale in scales if scale >= LAZY_FROM), **network}
    learns_rich, learns_stiff = (
        above_chance(f"the network at alpha {at['output_scale']:g}", classes=_CLASSES, **at)
        for at in (rich, stiff)
    )
    linear = accuracy(learner="linearized", **own)
    gaps = [minus(accuracy(**at), linear) for at in (rich, stiff)]
    moved = [value("kernel_distance", **at) for at in (rich, stiff)]
    more = {"conditions": (learns_rich, enough("output_scale", 2, "two output scales", **network))}
    gap = "points of accuracy at alpha {:g}, network minus its linearisation, {}"
    beats = Claim(gap.format(low, where), gaps[0], above=0.0, digits=2, **more)
    # Where both agree at every output scale, agreement is no sign of laziness.
    scale_matters = shown(beats, "the output scale makes a difference")
    close = {"paper": 0.0, "within": MARGIN, "seed_sd": _POINTS_SD, "digits": 2}
    close["conditions"] = learns_stiff, scale_matters
    power = {"paper": -1.0, "within": SLOPE_MARGIN, "seed_sd": _SLOPE_SD}
    power["conditions"] = scale_matters, enough("output_scale", 3, "three output scales", **lazy)
    falls = f"slope of log weight movement against log alpha, from {LAZY_FROM:g} up, within "
    still = {"below": STILL, "conditions": (scale_matters,)}
    kernel = "distance of the kernel"
    return [
        beats,
        Claim(gap.format(high, f"within {MARGIN:g}, {where}"), gaps[1], **close),
        Claim(f"{kernel} from its start at alpha {high:g}, {where}", moved[1], **still),
        Claim(
            f"{kernel} at alpha {low:g} minus that at {high:g}, {where}",
            minus(*moved),
            above=STILL,
            **more,
        ),
        Claim(
            f"{falls}{SLOPE_MARGIN:g}, {where}",
            slope("weight_movement", "output_scale", **lazy),
            **power,
        ),
    ]


def _width_claims(widest: int) -> list[Claim]:
    """Returns the claims on muP compared with the NTK parameterisation."""
    mup, ntk = (
        {"dial": "width", "learner": "network", "parameterization": name} for name in ("mup", "ntk")
    )
    at, own = {"width_factor": widest}, {"mup": "muP", "ntk": "the NTK parameterisation"}
    learn = tuple(
        above_chance(f"the network in {own[of['parameterization']]}", classes=_CLASSES, **of, **at)
        for of in (mup, ntk)
    )
    everywhere = above_chance("the network at all widths", classes=_CLASSES, **ntk)
    return [
        Claim(
            f"points of accuracy at width factor {widest:g}, muP minus NTK parameterisation",
            minus(accuracy(**mup, **at), accuracy(**ntk, **at)),
            above=0.0,
            conditions=learn,
            digits=2,
        ),
        Claim(
            "slope of log kernel distance against log width, NTK parameterisation",
            slope("kernel_distance", "width_factor", **ntk),
            below=-FALLS,
            conditions=(everywhere, enough("width_factor", 3, "three widths", **ntk)),
        ),
    ]


# --- report -------------------------------------------------------------------------------------

_COLORS = dict(zip(LABELS, PALETTE, strict=False))
_PANELS = (
    ("test_accuracy", 100.0, "test accuracy (%)", "linear"),
    ("linearization_error", 1.0, "c, missed by the linearisation", "linear"),
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
    scaled = rows["learner"].isin(BY_SCALE)
    rows = rows.assign(**{against: rows[against].where(scaled, np.inf)})
    shown = ("train_accuracy", "test_accuracy", "linearization_error", *MEASURES)
    by = ["parameterization", "learner", against]
    return table_of_means(rows, by, dict(zip(shown, shown, strict=True)))


def _answers(config: Config, runs: Runs) -> pd.DataFrame:
    """Returns c, features and gain at each output scale; one kernel at the start serves all."""
    parts = []
    for name in config.sweep.of_scale:
        own = runs.where(dial="output_scale", parameterization=name)
        for alpha in config.sweep.output_scale:
            planned, finished = (
                rows[(rows["learner"] == "ntk_finite") | (rows["output_scale"] == alpha)]
                for rows in own[:2]
            )
            at = own._replace(planned=planned, finished=finished)
            parts.append(({"parameterization": LABELS[name], "output scale": alpha}, at))
    return answers(parts)


def draw(table: pd.DataFrame) -> Any:
    """Draws accuracy and measures against both dials; bands are ± 1 standard deviation."""
    panels = [panel for panel in _PANELS if panel[0] in table]
    figure, grid = subplots(2, len(panels), 3.4, 3.3)
    for axes, (dial, against, label) in zip(grid, _DIALS, strict=True):
        rows = table[(table["dial"] == dial) & (table["learner"] == "network")]
        for axis, (column, factor, words, scale) in zip(axes, panels, strict=True):
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


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns tables, claims and the figure of both dials."""
    table, graded = runs.finished, _answers(config, runs)
    return Report(
        tables=[
            *[("Lazy or rich, by output scale", graded)] * bool(len(graded)),
            ("By output scale, at width factor 1", _table(table, "output_scale", "output_scale")),
            ("By width, at an output scale of 1", _table(table, "width", "width_factor")),
        ],
        claims=make_claims(config),
        figures={"dial": functools.partial(draw, table)},
        notes=[
            f"Means over {table['seed'].nunique()} seed(s), ± their standard deviation, at the end "
            "of training; weight movement and correlations are means over layers. A row at "
            "infinite output scale is the linearisation, or its exact regression. At width factor "
            "1 muP is the standard parameterisation."
        ],
    )


EXPERIMENT = Experiment(load=load, run=run, report=make_report, varying=varying, in_parts=True)
