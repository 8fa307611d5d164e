"""How one filter learns to find a sparse signal: Algorithm 1 step by step, and figure 3.

Karp et al. (NeurIPS 2021), section 4 and figure 3. Everything random is a function of (seed, step),
and points that differ only in seed, noise and learning rates run together as replicas.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import lax
from jaxtyping import Array, Float, Int, Key

from lsa_jax.experiments.lsa.signal import networks
from lsa_jax.experiments.lsa.signal.population import (
    bias_rate_ratio,
    population_trajectory,
    typical_start,
)
from lsa_jax.experiments.lsa.signal_dynamics.settings import EXTENSIONS
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, shown
from lsa_jax.reporting.curves import PALETTE, draw_mean, legend_below, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import accuracy, minus, value
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, with_last_measures
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import Course, Measuring, course_of
from lsa_jax.training.losses import is_correct
from lsa_jax.training.segments import Checkpoints, Evaluations, kept_if, run_evaluations

# Settings in which the replicas of a group may differ.
VARYING = ("seed", "noise_scale", "learning_rate", "bias_learning_rate_ratio")

# Measures that are a run's results, and their words in tables.
_RESULTS = ("test_accuracy", "w_dot_wstar", "w_perp_norm", "b", "ratio", "train_loss")
_COLUMNS = {
    "w_dot_wstar": "w.w*",
    "w_perp_norm": "norm of w_perp",
    "b": "b",
    "ratio": "abs(b) to w.w*",
    "test_accuracy": "test accuracy",
    "train_loss": "training loss",
}

Tree = Any


class SignalDynamics:
    """Random streams of a seed's key: start, minibatches, test examples, examples for measures."""

    INIT, TRAIN, TEST, MEASURED = range(4)


class FilterReplica(NamedTuple):
    """One run's key, its standard deviation of the noise, and its rates eta_w and eta_b."""

    key: Key[Array, ""]
    sigma: Float[Array, ""]
    learning_rate: Float[Array, ""]
    bias_learning_rate: Float[Array, ""]


class FilterState(NamedTuple):
    """One run between two steps; `step` stays once a step led to numbers that are not finite."""

    params: Tree
    step: Int[Array, ""]


def make_replica(config: Config) -> FilterReplica:
    """Returns a run's own numbers, from its settings."""
    return FilterReplica(
        key=jax.random.key(config.seed),
        sigma=jnp.float32(noise_std(config.k, config.noise_scale)),
        learning_rate=jnp.float32(config.learning_rate),
        bias_learning_rate=jnp.float32(config.learning_rate * bias_rate_ratio(config)),
    )


def init_state(config: Config, replica: FilterReplica) -> FilterState:
    """Returns the start of Algorithm 1: w ~ N(0, init_scale^2 I), b = 0."""
    key = jax.random.fold_in(replica.key, SignalDynamics.INIT)
    params = networks.make_network(config).init(key, config.init_scale, config.d)
    return FilterState(params, jnp.int32(0))


def _test_accuracy(config: Config, params: Tree, step: Array, replica: FilterReplica) -> Array:
    """Returns the accuracy on fresh test examples, drawn in pieces of a minibatch's size."""
    key = jax.random.fold_in(jax.random.fold_in(replica.key, SignalDynamics.TEST), step)
    sampler = networks.make_sampler(config)

    def piece(index: Array) -> Array:
        return sampler.margins(jax.random.fold_in(key, index), params, replica.sigma)

    pieces = -(-config.num_test // config.batch_size)
    margins = lax.map(piece, jnp.arange(pieces)).reshape(-1)[: config.num_test]
    return jnp.mean(is_correct(margins[:, None], jnp.ones_like(margins)))


def _train_steps(
    config: Config, state: FilterState, replica: FilterReplica, num_steps: Int[Array, ""]
) -> tuple[FilterState, Float[Array, ""], Tree]:
    """Takes steps of Algorithm 1, each on a fresh minibatch.

    A step whose loss, gradient or result is not finite is not taken, nor is any after it. Returns
    the state, and loss and gradient there, on the next step's minibatch.
    """
    stream = jax.random.fold_in(replica.key, SignalDynamics.TRAIN)
    rates = networks.make_network(config).rates(replica.learning_rate, replica.bias_learning_rate)
    gradient_at, first = networks.make_sampler(config).gradient, state.step

    def take(
        index: Array, carry: tuple[FilterState, Array, Tree]
    ) -> tuple[FilterState, Array, Tree]:
        state, step = carry[0], first + index
        loss, gradient = gradient_at(jax.random.fold_in(stream, step), state.params, replica.sigma)
        params = jax.tree.map(lambda p, rate, g: p - rate * g, state.params, rates, gradient)
        every = jax.tree.leaves((loss, gradient, params))
        going = (state.step == step) & jnp.stack([jnp.isfinite(a).all() for a in every]).all()
        going &= index < num_steps  # the last gradient is only measured
        return kept_if(going, FilterState(params, step + 1), state), loss, gradient

    start = (state, jnp.float32(0), jax.tree.map(jnp.zeros_like, state.params))
    return lax.fori_loop(0, num_steps + 1, take, start)


def advance(
    config: Config, state: FilterState, replica: FilterReplica, num_steps: Int[Array, ""]
) -> tuple[FilterState, dict[str, Float[Array, ""]]]:
    """Takes steps of Algorithm 1 and measures the run where it then stands."""
    state, loss, gradient = _train_steps(config, state, replica, num_steps)
    network, signal = networks.make_network(config), networks.signal_vector(config)
    (w, b), gradient = network.summary(state.params), network.summary(gradient)
    along = jnp.sum(w * signal)
    row = {
        "w_dot_wstar": along,
        "w_perp_norm": jnp.linalg.norm(w - along * signal),
        "b": b,
        "ratio": jnp.abs(b) / along,
        "test_accuracy": _test_accuracy(config, state.params, state.step, replica),
        "train_loss": loss,
        "grad_b": gradient.b,
        "grad_norm": jnp.linalg.norm(gradient.w),
        "grad_dot_wstar": jnp.sum(gradient.w * signal),
        **network.details(state.params, signal),
    }
    return state, row


def _evaluation_steps(config: Config) -> list[int]:
    return [*range(0, config.steps, config.eval_every), config.steps]


def run_until(
    finished: Callable[[Evaluations], bool], group: list[Point], directory: Path, progress: Progress
) -> Evaluations:
    """Trains and measures the runs of a group together, from their last checkpoint if any.

    They end where they are finished, or after `config.steps`.
    """
    config, layout = group[0].config, ReplicaLayout(len(group))
    replicas = [make_replica(point.config) for point in group]
    spread = layout.spread(jax.tree.map(lambda *leaves: jnp.stack(leaves), *replicas))
    program = layout.map(functools.partial(advance, config), 2)
    start = layout.gather(layout.map(functools.partial(init_state, config), 1)(spread))
    steps = _evaluation_steps(config)
    return run_evaluations(
        layout,
        lambda state, count: program(state, spread, count),
        [start],
        steps,
        kept=Checkpoints(directory, config.checkpoint_every),
        finished=finished,
        course=_course(config, replicas, start.params, steps),
        progress=progress,
    )


def _course(
    config: Config, replicas: list[FilterReplica], start: Tree, steps: list[int]
) -> Course | None:
    """Returns the measures of lazy and rich along training; None if there are none.

    Examples are fresh at every step, so the measures have a batch of their own.
    """

    def fetch(replica: int, index: Array) -> tuple[Array, Array]:
        key = jax.random.fold_in(replicas[replica].key, SignalDynamics.MEASURED)
        batch = networks.draw_examples(config, key, replicas[replica].sigma)
        return batch.inputs[index], batch.targets[index]

    measuring, size = Measuring(config.measures, config.measured_examples), config.batch_size
    apply = networks.make_network(config).apply
    return course_of(measuring, apply, start, fetch, size, steps, size * steps[-1])


def outcome(runs: Evaluations, replica: int) -> Outcome:
    """Returns one run's outcome where the last evaluation was made."""
    history = runs.history(replica)
    results = {name: history[-1][name] for name in _RESULTS}
    if runs.stopped[replica] or not np.isfinite(results["train_loss"]):
        taken = int(runs.state.step[replica])
        message = f"the loss was not finite at step {taken}; lower config.learning_rate"
        return Outcome({}, history, "failed", message)
    return with_last_measures(Outcome(results, history), runs.cost)


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains and measures the runs of a group together; one that is not finite fails alone."""
    runs = run_until(lambda runs: bool(runs.stopped.all()), group, directory, progress)
    return [outcome(runs, replica) for replica in range(len(group))]


# --- claims -------------------------------------------------------------------------------------

# A rank correlation counts as "they grow together" above this.
TOGETHER = 0.9


def _rank_correlation(first: str, second: str) -> Callable[[pd.DataFrame], float]:
    """Returns Spearman's correlation of two columns; 0 where one of them does not vary."""

    def of(rows: pd.DataFrame) -> float:
        varies = min(rows[first].nunique(), rows[second].nunique()) > 1
        return rows[first].corr(rows[second], method="spearman") if varies else 0.0

    return of


# Claims on the evaluations of a run, each only where its accuracy rises: by item the number, the
# paper's statement and its range.
# fmt: off
_STATEMENTS: dict[str, tuple[Callable[[pd.DataFrame], float], str, dict[str, float]]] = {
    "rank correlation of the step and w.w*": (
        _rank_correlation("step", "w_dot_wstar"),
        f"w.w* grows: above {TOGETHER:g}", {"above": TOGETHER}),
    "w.w* at the end": (
        lambda rows: rows["w_dot_wstar"].iloc[-1], "positive: above 0", {"above": 0.0}),
    "b at the end": (
        lambda rows: rows["b"].iloc[-1], "negative: below 0", {"below": 0.0}),
    "rank correlation of the ratio abs(b) to w.w* and test accuracy": (
        _rank_correlation("ratio", "test_accuracy"),
        f"they grow together: above {TOGETHER:g}", {"above": TOGETHER}),
}
# fmt: on
_PRIMARY = ("w.w* at the end", "b at the end")
# Settings that tell the series of runs apart.
_SWEPT = (*EXTENSIONS, "noise_scale", "learning_rate")


def numbers_of(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the numbers of the claims, a row a run, with its settings."""
    settings, rows = ["id", *_names(table), "seed"], []
    for _, run in table.groupby("id", sort=False):
        own = {item: number(run) for item, (number, _, _) in _STATEMENTS.items()}
        own |= {"first": run["test_accuracy"].iloc[0], "last": run["test_accuracy"].iloc[-1]}
        rows.append(run[settings].iloc[0].to_dict() | own)
    return pd.DataFrame(rows)


def make_claims(name: str, at: dict[str, float]) -> list[Claim]:
    """Returns the claims of a series of runs, by its name ("" for the only one) and settings.

    Claims on extensions of the paper's network or distribution are exploratory.
    """
    where, main = f" ({name})" if name else "", not {*EXTENSIONS} & {*at}
    last, first = (accuracy(number, unit=1.0, **at) for number in ("last", "first"))
    item = f"test accuracy at the end minus the start's{where}"
    rise = Claim(item, minus(last, first), above=0.0, primary=main)
    rises, claims = (shown(rise, "the accuracy rises"),), []
    for item, (_, paper, ends) in _STATEMENTS.items():
        stated = ends | {"paper": paper, "primary": main and item in _PRIMARY}
        claims.append(Claim(item + where, value(item, **at), conditions=rises, **stated))
    return [*claims, rise]


# --- tables and figure --------------------------------------------------------------------------

# A table has about this many of the evaluations.
_TABLE_ROWS = 10

_NOTE = (
    "Means over seeds, ± their standard deviation. Rank correlations are Spearman's, over a run's "
    "evaluations. The paper draws these curves without printing numbers."
)
_POPULATION_NOTE = (
    "The population trajectory is Algorithm 1 on the population loss, computed without sampling "
    "from a start of typical size: the limit of ever larger minibatches. There the norm of w_perp "
    "falls to 0, while the noise of finite minibatches keeps it up in the runs."
)


def _names(table: pd.DataFrame) -> list[str]:
    """Returns the names of the swept settings other than the seed."""
    return [name for name in _SWEPT if name in table]


def _series(table: pd.DataFrame) -> dict[str, tuple[dict[str, float], pd.DataFrame]]:
    """Returns the settings and the rows of each series, by its settings in words."""
    names, found = _names(table), {}
    if not names:
        return {"": ({}, table)} if len(table) else {}
    for values, rows in table.groupby(names, dropna=False, sort=False):
        # Runs may lack an extension's setting.
        pairs = zip(names, values, strict=True)
        own = {name: float(value) for name, value in pairs if pd.notna(value)}
        words = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in own.items())
        found[words] = own, rows
    return found


def population(config: Config, table: pd.DataFrame) -> pd.DataFrame:
    """Returns Algorithm 1 on the population loss, at the settings and steps of the runs.

    One row an evaluation, with the swept settings and the measures; no rows where
    `config.population` is off.
    """
    start, steps, rows = typical_start(config.init_scale, config.d), _evaluation_steps(config), []
    for own, _ in _series(table).values() if config.population else ():
        rate = own.get("learning_rate", config.learning_rate)
        rates = (rate, rate * bias_rate_ratio(config))
        sigma = noise_std(config.k, own.get("noise_scale", config.noise_scale))
        found = population_trajectory(start, rates, sigma, config.k, steps=steps)
        rows += [own | row for row in found]
    return pd.DataFrame(rows)


def _means(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a table of means over seeds at some of the evaluations of each series."""
    steps = np.sort(table["step"].unique())
    chosen = np.unique(np.linspace(0, len(steps) - 1, _TABLE_ROWS + 1).round().astype(int))
    rows = table[table["step"].isin(steps[chosen])]
    return table_of_means(rows, [*_names(table), "step"], _COLUMNS)


def _draw(table: pd.DataFrame, on_population: pd.DataFrame) -> Any:
    """Draws figure 3's panels against the step: means over seeds, bands of ± 1 std.

    The trajectories on the population loss are dotted black lines.
    """
    figure, (axes,) = subplots(1, 3, 4, 3.6)
    curves = (
        (axes[0], "w_dot_wstar", "-", "w·w*"),
        (axes[0], "b", "--", "b"),
        (axes[1], "ratio", "-", ""),
        (axes[2], "test_accuracy", "-", ""),
    )
    for (name, (_, rows)), color in zip(_series(table).items(), PALETTE, strict=False):
        for axis, measure, style, symbol in curves:
            label = ", ".join(filter(None, (symbol, name))) if axis is axes[0] else None
            values, steps = rows[measure], rows["step"]
            draw_mean(axis, values, steps, color=color, linestyle=style, label=label)
    for _, rows in _series(on_population).values():
        for axis, measure, _, _ in curves:
            axis.plot(rows["step"], rows[measure], ":", color="black", linewidth=1)
    if len(on_population):
        axes[0].plot([], [], ":", color="black", linewidth=1, label="population")
    titles = ("filter and threshold", "|b| / (w·w*)", "test accuracy")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xlabel="step", title=title)
    legend_below(figure, axes[0], ncols=2, fontsize="small")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns trajectories, their tables, claims and figure."""
    runs = runs.assign(seed=runs.finished.get("seed", config.seed))
    table = files.read_histories(workdir, runs.finished, ["id", *_names(runs.finished), "seed"])
    on_population = population(config, table)
    tables, extra = [("Course of training", _means(table))], {"trajectories": table}
    if len(on_population):
        tables.append(("On the population loss", _means(on_population)))
        extra["population"] = on_population
    series = _series(table).items()
    return Report(
        tables=tables,
        claims=[claim for name, (at, _) in series for claim in make_claims(name, at)],
        runs=runs._replace(finished=numbers_of(table)).assign(num_test=config.num_test),
        figures={"signal_dynamics": functools.partial(_draw, table, on_population)},
        extra_tables=extra,
        notes=[_NOTE, _POPULATION_NOTE] if len(on_population) else [_NOTE],
    )


EXPERIMENT = Experiment(
    run=run, report=make_report, report_version=2, varying=VARYING, fresh=lambda config: True
)
