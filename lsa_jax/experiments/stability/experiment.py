"""How much one example changes a model trained by SGD, and the generalisation gap.

Karp (thesis, 2024), chapter 2 and appendix A. Pairs of samples S and S' differ in one example; both
models of a pair have one start and one order. The pairs of one size are replicas of one program.
"""

import functools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array

from lsa_jax import parallel
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.experiments.stability import linear, networks, samples
from lsa_jax.experiments.stability.claims import make_claims, path_claims
from lsa_jax.experiments.stability.fits import CURVE, DIFFERENCE, SUBSAMPLED, fall_table, fit_all
from lsa_jax.experiments.stability.influence import run_influence
from lsa_jax.experiments.stability.settings import LINEAR, report_step, sweep
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_series, mark_logarithmic, subplots
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, with_course, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import Measuring, course_of_weights
from lsa_jax.training.segments import Checkpoints, placed, run_segments

Tree = Any


def _programs(
    config: Config, data: samples.Data
) -> tuple[Tree, Tree, Callable, Callable, Callable | None]:
    """Returns the start of both models, arrays that no model trains, and a pair's functions.

    They are `(models, pair, pool, fixed, order, count) -> models`, `(models, pair, pool, fixed) ->
    ({quantity: number}, correct answers [test])`, and the same to accuracies [alphas], which linear
    models have not.
    """
    inputs, targets = data.pool
    if config.learner in LINEAR:

        def advance(models: Tree, pair: Tree, pool: Tree, _: Tree, *order: Array) -> Tree:
            return linear.advance(config, models, pair, pool, *order)

        def measure(models: Tree, pair: Tree, pool: Tree, _: Tree) -> Tree:
            return linear.measure(config, data.num_train, models, pair, pool)

        start = linear.init(samples.start_key(config.seed), inputs.shape[1])
        return start, {}, advance, measure, None
    learner = networks.make_learner(config, inputs.shape[1:], targets.shape[1])
    own = networks.Networks(config, learner, data.num_train)
    start = parallel.compile_function(own.init)(samples.start_key(config.seed))
    count = min(data.num_train, config.training.batch_size * config.model.statistics_batches)
    first = jnp.asarray(inputs[:count], jnp.float32) * networks.unpacked_scale(inputs)
    of_s = jax.tree.map(lambda a: a[0], start.params)
    fixed = parallel.compile_function(learner.fixed)(of_s, first)
    return start, fixed, own.advance, own.measure, own.connect


def _with_paths(group: list[Point]) -> list[int]:
    """Returns the places of the points of a group whose paths are measured."""
    config = group[0].config
    if config.learner in LINEAR or config.m not in config.connectivity.sizes:
        return []
    return [i for i, p in enumerate(group) if p.config.pair < config.connectivity.pairs]


def stack(trees: list[Tree]) -> Tree:
    """Stacks equal trees into one of numpy arrays [len(trees), ...]."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


class _Training:
    """The pairs of one group on the devices."""

    def __init__(self, group: list[Point], data: samples.Data) -> None:
        config = group[0].config
        start, self._fixed, advance, measure, self._connect = _programs(config, data)
        self.layout = layout = ReplicaLayout(len(group))
        given = data.sizes | {"perturbation": config.perturbation}
        self._drawn = [
            samples.draw_pair(config.seed, config.m, p.config.pair, **given) for p in group
        ]
        self._pairs = layout.spread(stack(self._drawn))
        self._shared = layout.share((data.pool, self._fixed))
        self._advance = layout.map(advance, 2)
        self._measure = layout.map(measure, 2)
        self._data = data
        order = (config.seed, config.m, config.training.batch_size)
        self._order = jax.jit(
            functools.partial(samples.draw_order, *order, num_steps=config.checkpoint_every)
        )
        self.start = placed(layout, stack([start] * len(group)))

    def advance(self, models: Tree, first_step: int, count: int) -> Tree:
        order = self.layout.share(self._order(jnp.int32(first_step)))
        arguments = (*self._shared, order, self.layout.share(jnp.int32(count)))
        return self._advance(models, self._pairs, *arguments)

    def measure(self, models: Tree) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Returns quantities [pairs] by name, and correct answers [pairs, test examples]."""
        return self.layout.gather(self._measure(models, self._pairs, *self._shared))

    def connect(self, models: Tree, chosen: list[int]) -> dict[str, np.ndarray]:
        """Returns the accuracies [chosen, alphas] of pairs by split."""
        layout = ReplicaLayout(len(chosen))
        own = jax.tree.map(lambda a: a[chosen], self.layout.gather(models))
        pairs = layout.spread(stack([self._drawn[i] for i in chosen]))
        shared = layout.share((self._data.pool, self._fixed))
        return layout.gather(layout.map(self._connect, 2)(layout.spread(own), pairs, *shared))


def _train(
    group: list[Point], data: samples.Data, directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains and measures a group from its last checkpoint."""
    config, run, chosen = group[0].config, _Training(group, data), _with_paths(group)
    last, every = max(config.stops), config.checkpoint_every
    steps, course = [0, *sorted({*config.stops, *range(every, last, every)})], None
    table = np.full((len(config.stops), len(samples.MEASURES), len(group)), np.nan)
    right = np.zeros((len(group), data.sizes["num_test"]), bool)
    places = (len(chosen), config.connectivity.num_alphas)
    names = ("train_accuracy", "test_accuracy") if chosen else ()
    paths = {name: np.full(places, np.nan, np.float32) for name in names}
    if config.measures:
        of_s = Measuring(config.measures, network=partial(jax.tree.map, lambda leaf: leaf[:, 0]))
        course = course_of_weights(of_s, run.layout.gather(run.start).params, steps)

    def advance(models: Tree, segment: int) -> Tree:
        before, step = steps[segment : segment + 2]
        models = run.advance(models, before, step - before)
        if step in config.stops:
            row, correct = run.measure(models)
            table[config.stops.index(step)] = [row[name] for name in samples.MEASURES]
        if step == report_step(config):
            right[:] = correct
            paths.update(run.connect(models, chosen) if chosen else {})
        return models

    found = run_segments(
        run.start,
        (table, right, paths),
        steps[1:],
        advance,
        kept=Checkpoints(directory),
        layout=run.layout,
        progress=lambda step: progress(step / steps[-1]),
        course=course,
    )
    outcomes = []
    for i, point in enumerate(group):
        own = {name: values[chosen.index(i)] for name, values in paths.items() if i in chosen}
        outcome = _outcome(point.config, data, table[:, :, i], own)
        outcome = outcome._replace(outcomes=Outcomes(right[i]) if outcome.status == "ok" else None)
        outcomes.append(with_course(outcome, course.rows_of(i) if course else [], found.cost))
    return outcomes


def _outcome(
    config: Config, data: samples.Data, values: np.ndarray, paths: dict[str, np.ndarray]
) -> Outcome:
    """Returns one pair's outcome from its measures [stops, measures] and paths [alphas]."""
    rows = [
        {"step": step, **dict(zip(samples.MEASURES, row.tolist(), strict=True))}
        for step, row in zip(config.stops, values, strict=True)
    ]
    lost = [s for s, row in zip(config.stops, values, strict=True) if not np.isfinite(row).all()]
    if lost:
        message = f"a loss was not finite within {min(lost)} updates"
        return Outcome({}, rows, "failed", f"{message}; lower config.training.learning_rate")
    if paths:
        chance = best_constant_accuracy(data.pool.targets[data.num_train :])
        for alpha, *accuracies in zip(networks.alphas(config), *paths.values(), strict=True):
            row = dict(zip(paths, map(float, accuracies), strict=True))
            place = {"step": report_step(config), "alpha": float(alpha)}
            rows.append(place | row | {"chance": chance})
    at = config.stops.index(report_step(config))
    return Outcome(dict(zip(samples.MEASURES, values[at].tolist(), strict=True)), rows)


def run(
    group: list[Point], data: dict[str, samples.Data], directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains and measures the pairs of a group, or answers the question on influence."""
    config = group[0].config
    pool, num_train = own = data[samples.data_key(config)]
    if config.question == "influence":
        outcomes = [run_influence(point.config, own) for point in group]
    else:
        outcomes = _train(group, own, directory, progress)
    return with_test(outcomes, [pool.inputs[num_train:], pool.targets[num_train:]])


def _columns(config: Config) -> dict[str, Any]:
    names = ("learner", "perturbation", "seed", "m", "pair")
    left_out = ("perturbation", "pair") if config.question == "influence" else ()
    return {name: config[name] for name in names if name not in left_out}


# --- report -------------------------------------------------------------------------------------

_PAIRS_NOTE = (
    "Gaps are of A(S), test minus training; stability is the largest change of a test example's "
    "loss from A(S) to A(S'). a m^b is fitted to the largest of all pairs of a size by least "
    "squares; the interval of one trial is from subsamples of a fifth of its pairs, the same for "
    "all quantities, and covers no draw of the test examples, which all pairs share."
)


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep, by its question."""
    if config.question == "influence":
        return _influence_report(config, runs.finished, workdir)
    pairs, paths = collect(runs.finished, workdir)
    fits, step = fit_all(pairs, config.fit.resamples), report_step(config)
    drawn, kinds = {}, ["learner", "perturbation", "step"]
    for kind, found in pairs.groupby(kinds, sort=False):
        own = fits[(fits[kinds] == list(kind)).all(axis=1)]
        name = "_".join(map(str, ("pairs", *kind)))
        drawn[name] = partial(_draw_pairs, found, own, logarithmic=True)
        if config.fit.plain_axes:
            drawn[f"{name}_plain"] = partial(_draw_pairs, found, own, logarithmic=False)
    extra = {"pairs": pairs, "fits": fits.drop(columns=[*SUBSAMPLED.values()])}
    if len(paths):
        drawn["connectivity"] = partial(_draw_paths, paths)
        extra["paths"] = paths
    claimed = fits
    if config.paper == "figA_1":  # it is about two ranges of sizes
        claimed = fit_all(pairs, config.fit.resamples, config.fit.region_start)
    # The units of claims on falls of accuracy are trials, or of one trial its paths, a pair each.
    trials, path = sweep(config), config.connectivity
    on_paths = [one for one in trials if one["m"] in path.sizes and one["pair"] < path.pairs]
    falls = decide_all(path_claims(config), Runs.of(on_paths, fall_table(config, paths)))
    unit = "trial" if len({one["seed"] for one in on_paths}) > 1 else "pair"
    falls = [row._replace(note=row.note.replace("seed", unit)) for row in falls]
    return Report(
        tables=[
            ("Exponents of m", _exponent_table(fits)),
            (f"Means over pairs after {step} updates", _mean_table(pairs, step)),
        ],
        claims=make_claims(config) + falls,
        runs=Runs.of(trials, claimed),
        figures=drawn,
        extra_tables=extra,
        notes=[_PAIRS_NOTE],
    )


def _influence_report(config: Config, fine: pd.DataFrame, workdir: Path) -> Report:
    points = files.read_histories(workdir, fine, ["seed", "m"])
    names = ["seed", "m", "stability", "predicted_stability", "distance", "predicted_distance"]
    note = (
        "One example is left out at a time; the logistic model has the ridge "
        f"{config.influence.ridge:g}. Relative error: median length of predicted minus retrained "
        "change of the weights, over that of the change."
    )
    table = fine.reindex(columns=[*names, "correlation", "relative_error"])
    return Report(
        tables=[("Largest over the examples left out", table)],
        figures={"influence": partial(_draw_influence, points)},
        extra_tables={"examples": points},
        notes=[note],
    )


def collect(fine: pd.DataFrame, workdir: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns one row a pair and stop, and one a pair and alpha on the paths between models."""
    rows = files.read_histories(workdir, fine, [*CURVE[:-1], "m", "pair"])
    on_path = rows.get("alpha", pd.Series(np.nan, rows.index)).notna()
    pairs = rows[~on_path].reindex(columns=[*CURVE[:-1], "m", "pair", "step", *samples.MEASURES])
    return pairs, rows[on_path].drop(columns=[*samples.MEASURES], errors="ignore")


def _exponent_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Returns the exponents of the maxima in words, with their intervals."""

    def words(exponent: float, low: float, high: float) -> str:
        ends = "" if np.isnan(low) else f" ({low:.2f} to {high:.2f})"
        return "" if np.isnan(exponent) else f"{exponent:.2f}{ends}"

    table = fits[[*CURVE, "quantity", "pairs"]].replace({"quantity": samples.QUANTITIES})
    for name, columns in (
        ("b of maxima", ["exponent", "low", "high"]),
        ("less the loss gap's", [*DIFFERENCE[:3]]),
    ):
        table[name] = [words(*row) for row in fits[columns].itertuples(index=False)]
    return table


def _mean_table(pairs: pd.DataFrame, step: int) -> pd.DataFrame:
    """Returns means over pairs by size, and the training accuracy of the pair with the least."""
    here, by = pairs[pairs["step"] == step], ["learner", "perturbation", "m"]
    names = ["train_loss", "test_loss", "train_error", "test_error", *samples.QUANTITIES]
    least = 1 - here.groupby(by)["train_error"].transform("max")
    columns = dict(zip(names, names, strict=True)) | {"least": "least training accuracy"}
    return table_of_means(here.assign(least=least), by, columns)


def _draw_pairs(found: pd.DataFrame, fits: pd.DataFrame, *, logarithmic: bool) -> Any:
    """Draws each pair, the largest of each size m and the curve a m^b; a row a trial.

    On logarithmic axes values that are not positive have no place.
    """
    trials = list(found.groupby("seed"))
    figure, axes = subplots(len(trials), len(samples.QUANTITIES), 3.1, 2.9)
    for row, (seed, trial) in zip(axes, trials, strict=True):
        for axis, (quantity, title) in zip(row, samples.QUANTITIES.items(), strict=True):
            axis.plot(trial["m"], trial[quantity], "o", color=PALETTE[0], markersize=2.5, alpha=0.5)
            largest = trial.groupby("m")[quantity].max()
            axis.plot(largest.index, largest, "o", color=PALETTE[1], markersize=5)
            fit = fits[(fits["seed"] == seed) & (fits["quantity"] == quantity)].iloc[0]
            if np.isfinite(fit["exponent"]):
                m = np.geomspace(trial["m"].min(), trial["m"].max(), 100)
                axis.plot(m, fit["factor"] * m ** fit["exponent"], color=PALETTE[2])
                title += f": b = {fit['exponent']:.2f}"
            axis.set_title(title, fontsize="medium")
            if logarithmic:
                mark_logarithmic(axis, trial["m"], rotation=40, fontsize="small")
                if (trial[quantity] > 0).any():
                    axis.set_yscale("log", nonpositive="clip")
        row[0].set_ylabel(f"trial {seed}")
    for axis in axes[-1]:
        axis.set_xlabel("m")
    return figure


def _draw_paths(paths: pd.DataFrame) -> Any:
    """Draws accuracy on the line through W_S' (alpha = 0) and W_S (1), a line a pair.

    Panels are sizes, rows are trials and learners.
    """
    rows = list(paths.groupby(["learner", "perturbation", "seed"], sort=False))
    sizes = sorted(paths["m"].unique())
    figure, axes = subplots(len(rows), len(sizes), 4.6, 3.4)
    for row, ((learner, perturbation, seed), found) in zip(axes, rows, strict=True):
        for axis, m in zip(row, sizes, strict=True):
            own = found[found["m"] == m].rename(columns=lambda n: n.removesuffix("_accuracy"))
            own = own.melt(["alpha", "pair"], ["train", "test"], "split", "accuracy")
            draw_series(axis, own, "alpha", "accuracy", "split", each="pair", lw=1)
            for end in (0, 1):
                axis.axvline(end, color="black", linewidth=0.6, linestyle=":")
            axis.set_title(f"{learner}, {perturbation}, trial {seed}, m = {m}", fontsize="medium")
            axis.set_xlabel("alpha")
        row[0].set_ylabel("accuracy")
    axes[0, -1].legend(frameon=False)
    return figure


def _draw_influence(points: pd.DataFrame) -> Any:
    """Draws the predicted change without an example against that of training again."""
    figure, axes = subplots(1, 2, 4.2, 3.8)
    for axis, name in zip(axes[0], ("stability", "distance"), strict=True):
        style = {"ls": "", "marker": "o", "markersize": 3}
        draw_series(axis, points, name, f"predicted_{name}", "m", each="seed", **style)
        ends = [points[name].min(), points[name].max()]
        axis.plot(ends, ends, color="black", linewidth=0.8)
        axis.set(xscale="log", yscale="log", xlabel=f"{name}, trained again", ylabel="predicted")
    axes[0, 0].legend(title="m", frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    load=samples.load,
    varying=("pair",),  # pairs of one size are replicas of one program
    columns=_columns,
    in_parts=True,
    report_version=4,
)
