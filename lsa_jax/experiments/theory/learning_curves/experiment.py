"""Errors of kernel regression against the number of examples: predicted, and measured.

A pool of examples stands for the distribution. Learners are fitted to some of it and tested on the
others; predictions are from the spectrum of the pool's kernel and the targets alone. All errors are
squared distances over the targets' variance: a constant answer has 1.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from lsa_jax import kernels, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import NumericalError
from lsa_jax.experiments.lsa.noise_curves import settings as noise_settings
from lsa_jax.experiments.lsa.noise_curves import tasks as noise_tasks
from lsa_jax.experiments.lsa.noise_curves.experiment import build_model
from lsa_jax.experiments.theory.learning_curves.claims import MARGIN, exponent, make_claims
from lsa_jax.experiments.theory.learning_curves.settings import CHANGES, LEARNERS, TASKS, pool_of
from lsa_jax.models.model import Model
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread, table_of_means
from lsa_jax.sweep.experiment import SCRATCH, Config, Experiment, Outcome, Point, Progress
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.programs import init_key

_TRAINED = ("network", "ntk_trained")  # on the drawn examples of the pool
# Learnabilities are compared in groups of modes, the largest first, up to these.
_GROUPS = (10, 30, 100, 300, 1000)
# Streams of a seed's keys and draws.
_RUN, _POINTS, _SUBSET, _CHANGE = range(10, 14)
_MOMENTUM = 0.9
_PART = 500  # examples that a network sees at a time


class Pool(NamedTuple):
    """A kernel's matrix on the pool [N, N], its spectrum, and targets [N, c] of mean 0."""

    gram: Float[np.ndarray, "n n"]
    spectrum: kernels.Spectrum
    targets: Float[np.ndarray, "n c"]


def _point(config: Config) -> Point:
    """Returns the data and the network as a point of noise curves: the pool is its training set."""
    own = {"seed": config.seed, "data.num_train": config.pool, "data.num_test": config.num_others}
    default = noise_settings.SETTINGS.default_config()
    return Point(config.task, {}, set_fields(default, {**TASKS[config.task].fields, **own}))


def load(points: list[Point], data_dir: Path | None) -> Any:
    """Reads the images that the points need."""
    return noise_tasks.load([_point(point.config) for point in points], data_dir)


def subset(config: Config, draw: int, size: int) -> Int[np.ndarray, " n"]:
    """Returns the examples of a draw from a pool; more of them begin with fewer."""
    order = np.random.default_rng((config.seed, _SUBSET, draw)).permutation(size)
    return order[: config.num_train]


def change_pool(pool: Pool, change: str, seed: int) -> Pool:
    """Returns a pool with one reason for a wrong prediction taken away, see `CHANGES`."""
    rng, n = np.random.default_rng((seed, _CHANGE)), len(pool.gram)
    if change in ("half_pool", "quarter_pool"):
        kept = rng.permutation(n)[: n // (2 if change == "half_pool" else 4)]
        return make_pool(pool.gram[np.ix_(kept, kept)], pool.targets[kept])
    values, vectors = pool.spectrum.values, pool.spectrum.vectors
    coefficients = vectors.T @ pool.targets
    if change == "gaussian_targets":
        size = np.sqrt(np.mean(coefficients**2, axis=1, keepdims=True))
        coefficients = size * rng.standard_normal(coefficients.shape)
        return pool._replace(targets=vectors @ coefficients)
    if change == "random_eigenvectors":
        vectors = np.linalg.qr(rng.standard_normal((n, n)))[0]
        spectrum = pool.spectrum._replace(vectors=vectors)
        return Pool((vectors * values) @ vectors.T, spectrum, vectors @ coefficients)
    return pool


def make_pool(gram: Float[np.ndarray, "n n"], targets: Float[np.ndarray, "n c"]) -> Pool:
    """Returns a kernel's pool; targets are centred."""
    gram = np.asarray(gram, float)
    return Pool(gram, kernels.eigendecompose(gram), targets - targets.mean(axis=0))


def _measure(pool: Pool, train: np.ndarray, shift: float) -> tuple[dict[str, float], np.ndarray]:
    """Returns the errors of one fit, and by how much it recovers each mode."""
    targets, own = pool.targets, kernels.eigendecompose(pool.gram[np.ix_(train, train)])
    inverse = (own.vectors / (own.values + shift)) @ own.vectors.T
    weights = inverse @ targets[train]
    outputs, unseen = pool.gram[:, train] @ weights, np.delete(np.arange(len(targets)), train)
    found = _errors(outputs, targets, train, unseen)
    variance = np.sum(targets**2) / len(targets)
    ridge = shift / own.mean_diagonal
    found["kare"] = kernels.kernel_alignment_risk(own, targets[train], [ridge])[0] / variance
    left_out = np.sum((weights / np.diag(inverse)[:, None]) ** 2, axis=1)
    found["leave_one_out"] = left_out.mean() / variance
    at = pool.spectrum.vectors[train]
    return found, pool.spectrum.values * np.sum(at * (inverse @ at), axis=0)


def _errors(
    outputs: np.ndarray, targets: np.ndarray, train: np.ndarray, unseen: np.ndarray
) -> dict[str, float]:
    """Returns errors over the variance, and the accuracy, of outputs on the whole pool."""
    distances = np.sum((outputs - targets) ** 2, axis=1) * len(targets) / np.sum(targets**2)
    right = np.argmax(outputs, axis=1) == np.argmax(targets, axis=1)
    return {
        "test_error": float(distances[unseen].mean()),
        "train_error": float(distances[train].mean()),
        "whole_error": float(distances.mean()),
        "test_accuracy": float(right[unseen].mean()),
        "num_test": len(unseen),
    }


def compare(pool: Pool, config: Config, draws: int) -> dict[str, float]:
    """Returns measured errors, means over draws, and the predicted ones."""
    size, n = len(pool.gram), config.num_train
    values, coefficients = kernels.modes(pool.spectrum, pool.targets)
    shift = config.ridge * pool.spectrum.mean_diagonal
    fits = [_measure(pool, subset(config, draw, size), shift) for draw in range(draws)]
    found = {name: float(np.mean([fit[0][name] for fit in fits])) for name in fits[0][0]}
    recovered = np.mean([fit[1] for fit in fits], axis=0)
    curve = kernels.predict_learning_curve(values, coefficients, [n], config.ridge, pool=size)
    power = np.sum(coefficients**2, axis=1)
    for name in ("test", "train", "whole"):
        found[f"predicted_{name}"] = float(getattr(curve, name)[0] / power.sum())
    found["ratio"] = found["predicted_test"] / found["test_error"]
    found["kare_ratio"] = found["kare"] / found["test_error"]
    found["leave_one_out_ratio"] = found["leave_one_out"] / found["test_error"]
    gaps = (recovered - curve.learnabilities[0])[::-1]  # the largest eigenvalues first
    parts = np.split(gaps, [group for group in _GROUPS if group < size])
    found["learnability_gap"] = float(max(abs(part.mean()) for part in parts))
    shares = np.cumsum(power[::-1]) / power.sum()
    return found | {f"power_{k}": float(shares[min(k, size) - 1]) for k in (1, *_GROUPS[:4])}


class Group:
    """A task's data and network with one seed; its parts are computed when they are needed."""

    def __init__(self, config: Config, data: Any, directory: Path) -> None:
        point, self._config, self._directory = _point(config), config, directory
        found = noise_tasks.task_of(point, data)
        parts = [
            noise_tasks.composed(point, found, which, np.arange(len(split.targets)))
            for which, split in enumerate(found)
        ]
        # Networks and kernels learn the same targets.
        mean = np.asarray(parts[0].targets).mean(axis=0)
        self.pool, self.others = (
            Dataset(np.asarray(part.inputs), np.asarray(part.targets) - mean) for part in parts
        )
        classes = self.pool.targets.shape[1]
        self.model = build_model(point.config, "network", classes)
        self.wide = build_model(point.config, "ntk_infinite", classes)
        self._key = jax.random.key(config.seed)
        self._networks: dict[str, Any] = {}

    def network(self, config: Config, examples: Dataset) -> Any:
        """Returns the parameters of the network trained on these examples, once for each set."""
        name = f"network_{len(examples.targets)}"
        if name not in self._networks:
            key = jax.random.fold_in(self._key, _RUN)
            place = self._directory / name
            self._networks[name] = train(key, self.model, examples, config, place)
        return self._networks[name]

    def outputs(self, params: Any) -> np.ndarray:
        """Returns a network's outputs on the pool."""
        inputs, apply = self.pool.inputs, jax.jit(self.model.apply)
        parts = [inputs[start : start + _PART] for start in range(0, len(inputs), _PART)]
        return np.concatenate([np.asarray(apply(params, jnp.asarray(part))) for part in parts])

    def kernel(self, config: Config) -> Callable:
        """Returns the kernel of a learner."""
        finite = functools.partial(kernels.finite_kernel, self.model.apply)
        if config.learner == "ntk_start":
            key, shape = jax.random.fold_in(self._key, _RUN), self.pool.inputs.shape[1:]
            return finite(self.model.init(init_key(key), shape))
        if config.learner == "ntk_fixed":
            return finite(self.network(config, self.others))
        if config.learner == "ntk_trained":
            return finite(self.network(config, self.drawn(config)))
        assert isinstance(self.wide.kernel, kernels.InfiniteKernel)
        if config.learner == "ntk_infinite":
            return self.wide.kernel
        return kernels.recursive_feature_machine(
            self.wide.kernel.transformed,
            *self.others,
            key=jax.random.fold_in(self._key, _POINTS),
            size=self.wide.kernel.transform_size(self.pool.inputs.shape[1:]),
            updates=config.rfm.updates,
            points=min(config.rfm.points, len(self.others.targets)),
            ridge=config.ridge,
            directory=self._directory / SCRATCH / "learned",
        ).kernel

    def drawn(self, config: Config) -> Dataset:
        """Returns the examples of the pool that a network is trained on: the first draw."""
        train = subset(config, 0, len(self.pool.targets))
        return Dataset(self.pool.inputs[train], self.pool.targets[train])

    def _make_pool(self, config: Config) -> Pool:
        return make_pool(kernels.gram(self.kernel(config), self.pool.inputs), self.pool.targets)

    @functools.cached_property
    def _fixed(self) -> Pool:
        """The pool of a kernel that does not depend on the drawn examples."""
        return self._make_pool(self._config)

    def measure(self, config: Config) -> dict[str, float]:
        """Returns the errors of a point."""
        if config.learner == "network":
            size = len(self.pool.targets)
            drawn = subset(config, 0, size)
            outputs = self.outputs(self.network(config, self.drawn(config)))
            return _errors(outputs, self.pool.targets, drawn, np.delete(np.arange(size), drawn))
        if config.learner == "ntk_trained":  # has seen the targets of its draw
            return compare(self._make_pool(config), config, 1)
        pool = change_pool(self._fixed, config.change, config.seed)
        return compare(pool, config, config.draws)


def train(key: jax.Array, model: Model, examples: Dataset, config: Config, directory: Path) -> Any:
    """Trains a network by squared errors, in about as many steps for any number of examples."""
    batch = min(config.batch_size, len(examples.targets))
    per_epoch = -(-len(examples.targets) // batch)
    epochs = max(1, round(config.steps / per_epoch))
    schedule = training.make_schedule(
        "cosine",
        _point(config).config.network.learning_rate,
        epochs=epochs,
        steps_per_epoch=per_epoch,
        warmup_epochs=epochs / 10,
    )
    params, _ = training.train(
        key,
        model,
        examples,
        training.squared_error,
        training.make_optimizer("momentum", schedule, momentum=_MOMENTUM),
        epochs=epochs,
        batch_size=batch,
        evaluation=training.Evaluation(None, {}, epochs),
        checkpoints=training.Checkpoints(directory, max(1, epochs // 4)),
    )
    return params


def run(group: list[Point], data: Any, directory: Path, progress: Progress) -> list[Outcome]:
    """Measures the learners of a task and seed at every number of examples."""
    shared, outcomes = Group(group[0].config, data, directory), []
    for done, point in enumerate(group, start=1):
        try:
            outcomes.append(Outcome(found := shared.measure(point.config), [found]))
        except NumericalError as error:
            outcomes.append(Outcome({}, [], "failed", str(error)))
        progress(done / len(group))
    return outcomes


def varying(config: Config) -> tuple[str, ...]:
    """Returns the fields in which points of a group may differ: they share a kernel or networks."""
    return ("num_train", "learner" if config.learner in _TRAINED else "change")


# --- report -------------------------------------------------------------------------------------

_COLORS = dict(zip(LEARNERS, (*PALETTE[:5], PALETTE[6]), strict=True))
_LINES = dict(zip(CHANGES, ("-", "--", ":", "-.", (0, (1, 4))), strict=True))
_RATIOS = {"ratio": "predicted", "kare_ratio": "KARE", "leave_one_out_ratio": "leave-one-out"}
_POWERS = "power_"


def _error_table(table: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a task, kernel, change and number of examples."""
    by = {"task": "data", "learner": "learner", "change": "pool", "num_train": "n"}
    labels = {name: task.label for name, task in TASKS.items()}
    named = table.replace({"task": labels, "learner": LEARNERS, "change": CHANGES})
    columns = {"test_error": "error"} | {n: f"{words} / error" for n, words in _RATIOS.items()}
    columns["test_accuracy"] = "accuracy"
    return table_of_means(named, [*by], columns).rename(columns=by)


def _exponents(runs: Runs, config: Config) -> pd.DataFrame:
    """Returns one row a task and learner: the power of n with which its error falls."""
    return pd.DataFrame(
        {
            "data": TASKS[task].label,
            "learner": LEARNERS[learner],
            "exponent": mean_and_spread(exponent(task, learner)(runs).values, ".3f"),
        }
        for task in config.sweep.task
        for learner in config.sweep.learner
    )


def _draw_curves(axis: Any, table: pd.DataFrame) -> None:
    for learner, own in table.groupby("learner", sort=False):
        style = {"color": _COLORS[learner], "marker": "o", "markersize": 4}
        predicted = own["predicted_test"] if "predicted_test" in own else pd.Series(np.nan)
        alone = predicted.isna().all()
        style |= {"linestyle": "-" if alone else "", "label": LEARNERS[learner]}
        draw_mean(axis, own["test_error"], own["num_train"], **style)
        if not alone:
            means = predicted.groupby(own["num_train"]).mean()
            axis.plot(means.index, means, color=_COLORS[learner], lw=1.2)


def draw(table: pd.DataFrame, tasks: tuple[str, ...]) -> Any:
    """Draws errors with predictions, targets' power in the first modes, and ratios of errors."""
    figure, grid = subplots(3, len(tasks), 4.4, 2.9)
    for axis in grid[2, 1:]:
        axis.sharey(grid[2, 0])
    largest = table["num_train"].max()
    for column, task in enumerate(tasks):
        of_task = table[table["task"] == task]
        own = of_task[of_task["change"] == "none"]
        errors, power, ratios = grid[:, column]
        _draw_curves(errors, own)
        errors.set(title=TASKS[task].label, yscale="log", xlabel="examples n", ylabel="error")
        columns = [name for name in own if name.startswith(_POWERS)]
        kernel = own[own["learner"] != "network"]
        # Kernels that are trained on n: those of the largest n.
        kernel = kernel[(kernel["learner"] != "ntk_trained") | (kernel["num_train"] == largest)]
        for learner, rows in kernel.groupby("learner", sort=False):
            counts = [int(name.removeprefix(_POWERS)) for name in columns]
            power.plot(counts, rows[columns].mean(), color=_COLORS[learner], marker="o", ms=3)
        power.set(xscale="log", xlabel="modes", ylabel="targets' power in the first modes")
        for (learner, change), rows in of_task.groupby(["learner", "change"], sort=False):
            if "ratio" in rows and rows["ratio"].notna().any() and learner != "ntk_trained":
                means = rows.groupby("num_train")["ratio"].mean()
                label = CHANGES[change] if learner == "ntk_infinite" else None
                style = {"color": _COLORS[learner], "linestyle": _LINES[change], "label": label}
                ratios.plot(means.index, means, marker=".", **style)
        ratios.axhspan(1 - MARGIN, 1 + MARGIN, color="grey", alpha=0.15)
        ratios.set(xlabel="examples n", ylabel="predicted / measured")
        if of_task["change"].nunique() > 1:
            ratios.legend(frameon=False, fontsize=7, title="pool of the infinite NTK")
        for axis in (errors, ratios):
            mark_logarithmic(axis, own["num_train"])
    grid[0, -1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns tables, claims and the figure."""
    table, tasks = runs.finished, config.sweep.task
    pools = ", ".join(f"{TASKS[task].label} {pool_of(config, task)}" for task in tasks)
    return Report(
        tables=[("Errors", _error_table(table)), ("Exponents", _exponents(runs, config))],
        claims=make_claims(config),
        figures={"learning_curves": functools.partial(draw, table, tasks)},
        notes=[
            f"Means over {table['seed'].nunique()} seed(s), ± their standard deviation. Errors are "
            "squared distances over the targets' variance, of the pool's examples that were not "
            f"drawn. Pools: {pools}. A kernel's error in a seed is the mean over "
            f"{config.draws} draws; network and kernels trained on n have one. Points are "
            "measured, lines without points predicted."
        ],
    )


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    varying=varying,
    columns=lambda config: {
        name: config[name] for name in ("task", "learner", "change", "num_train", "seed")
    },
    fresh=lambda config: True,
)
