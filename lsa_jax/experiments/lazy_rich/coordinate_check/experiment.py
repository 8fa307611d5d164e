"""The coordinate check: change of activations in a few steps, at growing width.

Yang et al., Tensor Programs V (arXiv 2203.03466), appendix D.1. The trained function is f - f_0:
the outputs at the start fall with the width in muP, and narrow networks would have more to undo.
Claims were stated before any run: in muP no layer's change depends on the width; the standard
parameterisation's outputs change more with it, the NTK parameterisation's features less.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array

from lsa_jax import training
from lsa_jax.data.dataset import Dataset
from lsa_jax.diagnosis.coordinate_check import FLAT, columns, draw_changes, name_of
from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.digits import TRAIN, ImageTask, load
from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting.claims import Claim, enough, shown
from lsa_jax.reporting.curves import subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import mean_of, slope
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress, with_course
from lsa_jax.training.coordinates import take_steps
from lsa_jax.training.course import Course, course_of


def rate_of(config: Config) -> float:
    """Returns a point's learning rate, independent of its width."""
    rate = config.rates[config.optimizer]
    scaled = config.parameterization == "ntk" and config.optimizer == "sgd"
    return rate * config.ntk_factor if scaled else rate


class Check(NamedTuple):
    """The change of each layer at a point, between these two parameters."""

    change: dict[str, Array]
    start: Any
    params: Any


def make_check(config: Config, task: ImageTask) -> Callable[[Array, Array], Check]:
    """Returns the compiled function of a run key and a data key."""
    model, shape = digits.build(config), digits.input_shape(config, task)
    factors = model.rate_factors and model.rate_factors(shape, config.optimizer)
    optimizer = training.make_optimizer(config.optimizer, rate_of(config), rate_factors=factors)
    count = len(task.train.targets)

    def examples(key: Array, step: Array) -> Dataset:
        index = (step * config.batch_size + jnp.arange(config.batch_size)) % count
        return digits.compose(config, TRAIN, task.train, key, index)

    def loss(params: dict, start: dict, batch: Dataset) -> Array:
        outputs = model.apply(params, batch.inputs) - model.apply(start, batch.inputs)
        return jnp.mean(training.softmax_cross_entropy(outputs, batch.targets))

    @jax.jit
    def check(key: Array, data_key: Array) -> Check:
        start = model.init(key, shape)

        def loss_at(params: dict, number: Array) -> Array:
            return loss(params, start, examples(data_key, number))

        numbers, state = jnp.arange(config.steps), optimizer.init(start)
        params, _, _ = take_steps(start, state, loss_at, optimizer, numbers)
        first = examples(data_key, jnp.int32(0)).inputs
        change = training.measures.activation_change(model.activations, start, params, first)
        return Check(change, start, params)

    return check


def _course(group: list[Point], task: ImageTask, checks: list[Check]) -> Course | None:
    """Returns the measures at the start and after the last step; None if there are none."""
    config = group[0].config
    start, params = (
        jax.tree.map(lambda *leaves: np.stack(leaves), *(getattr(one, name) for one in checks))
        for name in ("start", "params")
    )

    def fetch(replica: int, index: Array) -> Dataset:
        own = group[replica].config
        return digits.compose(own, TRAIN, task.train, digits.data_key(own), index)

    course = course_of(
        training.Measuring(config.measures, config.measured_examples),
        digits.build(config).apply,
        start,
        fetch,
        len(task.train.targets),
        [0, config.steps],
        config.steps * config.batch_size,
    )
    if course is not None:
        course.take(0, start)
        course.take(config.steps, params)
    return course


def run(
    group: list[Point], data: dict[str, ImageTask], directory: Path, progress: Progress
) -> list[Outcome]:
    """Takes a few steps at every point of a group, one after the other."""
    task, found = digits.task_of(group[0], data), []
    check = make_check(group[0].config, task)
    for done, point in enumerate(group, start=1):
        found.append(check(digits.run_key(point.config), digits.data_key(point.config)))
        progress(done / len(group))
    course, outcomes = _course(group, task, found), []
    for replica, one in enumerate(found):
        outcome = Outcome({f"change/{k}": float(v) for k, v in one.change.items()}, [])
        if not np.isfinite(list(outcome.metrics.values())).all():
            outcome = Outcome({}, [], "failed", "a change of activations is not finite")
        rows = course.rows_of(replica) if course else []
        outcomes.append(with_course(outcome, rows, course and course.cost([], 1)))
    return outcomes


# --- claims -------------------------------------------------------------------------------------

# A slope of log change against log width above this size depends on the width.
STEEP = 0.3

_ITEM = "slope of log change against log width"
# Two widths give a slope to any noise.
_WIDTHS = enough("width_factor", 3, "three widths or more")


def make_claims(config: Config, layers: Sequence[str]) -> list[Claim]:
    """Returns the claims of each update rule, about the changes of `layers`."""
    return [claim for rule in config.sweep.optimizer for claim in _claims_of(rule, layers)]


def _claims_of(rule: str, layers: Sequence[str]) -> list[Claim]:
    def slope_of(layer: str, name: str) -> Statistic:
        return slope(layer, "width_factor", optimizer=rule, parameterization=name)

    where, outputs = f"standard, {rule}, outputs", slope_of(layers[-1], "standard")
    control = Claim(f"{_ITEM}, {where}", outputs, above=STEEP, conditions=(_WIDTHS,))
    # Where all parameterisations are alike, it is not muP that makes the slope flat.
    known = {"conditions": (_WIDTHS, shown(control, "the standard parameterisation is not flat"))}
    flat = {"paper": 0.0, "within": FLAT, "seed_sd": 0.05, **known}
    claims = [control]
    for layer in layers:
        item = f"{_ITEM}, muP, {rule}, {name_of(layer)}, within {FLAT:g}"
        claims.append(Claim(item, slope_of(layer, "mup"), **flat))
    if rule == "sgd":
        features = mean_of([slope_of(layer, "ntk") for layer in layers[:-1]])
        item = f"{_ITEM}, NTK, sgd, mean of features"
        claims.append(Claim(item, features, below=-STEEP, **known))
    return claims


# --- report -------------------------------------------------------------------------------------

_KEYS = ["optimizer", "parameterization"]


def _table(runs: Runs) -> pd.DataFrame:
    """Returns one row an update rule and parameterisation, one column a layer: slopes."""
    rows = []
    for key in runs.finished[_KEYS].drop_duplicates().to_dict("records"):
        of_layers = {
            name_of(layer): slope(layer, "width_factor", **key)(runs).values
            for layer in columns(runs.finished)
        }
        rows.append(key | {layer: mean_and_spread(found) for layer, found in of_layers.items()})
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame) -> Any:
    """Draws the change of each layer against width: rows are update rules, columns names."""
    rules, names = (list(table[key].unique()) for key in _KEYS)
    figure, grid = subplots(len(rules), len(names), 4, 3.3, sharey="row")
    for rule, axes in zip(rules, grid, strict=True):
        for name, axis in zip(names, axes, strict=True):
            own = table[(table["optimizer"] == rule) & (table["parameterization"] == name)]
            draw_changes(axis, own, "width_factor")
            axis.set(title=f"{LABELS[name]}, {rule}", xlabel="width factor")
        axes[0].set_ylabel("change of activations (r.m.s.)")
    grid[0, 0].legend(frameon=False, fontsize=8)
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns slopes, claims and the figure."""
    table = runs.finished
    return Report(
        tables=[("Slope of log change against log width", _table(runs))],
        claims=make_claims(config, columns(table)),
        figures={"coordinate_check": functools.partial(draw, table)},
        notes=[
            f"Change after {config.steps} steps of {config.batch_size} examples, "
            f"{table['seed'].nunique()} seed(s); outputs of each ReLU, and of the network."
        ],
    )


EXPERIMENT = Experiment(load=load, run=run, report=make_report, report_version=2, varying=("seed",))
