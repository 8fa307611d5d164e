"""Linear models on features that are fixed before the data are seen, and the network.

Shi, Wei and Liang (ICLR 2022), theorem 2 and corollary 3: on some parity mixture every linear model
on N bounded features has a large hinge loss unless N is exponential in k. Here: the best linear
model that is found on N random neurons, and on N random features of an RBF kernel, against N; and
the network, which learns its features, on the same examples.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy.optimize
from jaxtyping import Array, Float, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning import experiment
from lsa_jax.experiments.feature_learning.learning.settings import SETTINGS as NETWORK
from lsa_jax.experiments.feature_learning.learning.tasks import make_task
from lsa_jax.experiments.feature_learning.networks import truncated_relu
from lsa_jax.reporting.claims import Claim, shown
from lsa_jax.reporting.curves import draw_series, subplots
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import accuracy, computed, lowest, minus
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress, with_test
from lsa_jax.sweep.variants import set_fields

# The hinge is made smooth over this much of the margin, for L-BFGS.
_BEND = 0.1
# Random streams of the key of one set of features; the problem's are those of `learning.tasks`.
_DIRECTIONS, _OFFSETS = 20, 21


def network_point(point: Point) -> Point:
    """Returns the point of `feature_learning.learning` that trains a point's network."""
    config = point.config
    fields = {
        "learner": "network",
        "seed": config.seed,
        "data.d": config.num_patterns,
        "data.num_patterns": config.num_patterns,
        "data.k": config.k,
        "data.p0": config.p0,
        "data.num_train": config.num_train,
        # The first of these are the linear models' validation examples.
        "data.num_test": config.num_validation + config.num_test,
        "pictures": False,
        **config.network.to_dict(),
    }
    settings = set_fields(NETWORK.default_config(), fields)
    NETWORK.validate(settings)
    return Point(point.id, point.settings, settings)


def random_features(
    kind: str,
    key: Key[Array, ""],
    inputs: Float[Array, "n d"],
    count: int,
    scale: float | Float[Array, ""],
) -> Float[Array, "n count"]:
    """Returns features in [-1, 1], each a function of its own number, for any count.

    "neurons" are truncated ReLUs of <w, x> + b, with w and b as a network starts, and "rbf"
    cos(<w, x> + b) with b uniform (Rahimi and Recht, 2008); w ~ N(0, I / scale^2).
    """
    d = inputs.shape[1]

    def one(number: Array) -> tuple[Array, Array]:
        own = jax.random.fold_in(key, number)
        w = jax.random.normal(jax.random.fold_in(own, _DIRECTIONS), (d,)) / scale
        offset_key = jax.random.fold_in(own, _OFFSETS)
        if kind == "neurons":
            return w, 0.4 * jax.random.normal(offset_key)
        return w, jax.random.uniform(offset_key, maxval=2 * jnp.pi)

    w, b = jax.vmap(one)(jnp.arange(count))
    z = inputs @ w.T + b[None]
    return truncated_relu(z) if kind == "neurons" else jnp.cos(z)


def fit_hinge(
    features: Float[np.ndarray, "n N"],
    targets: Float[np.ndarray, " n"],
    penalty: float,
    max_iterations: int,
) -> Float[np.ndarray, " N+1"]:
    """Fits a linear model with an offset by the hinge loss, bent to be smooth, plus a penalty.

    Minimises mean h(y (<w, f> + w_0)) + penalty / 2 |w|^2, h being the hinge 1 - z below 1 but
    for a parabola where 1 - `_BEND` < z < 1. Returns w, and w_0 last.
    """
    with_one = np.concatenate([features, np.ones((len(features), 1), features.dtype)], axis=1)

    def loss_and_slope(weights: np.ndarray) -> tuple[float, np.ndarray]:
        short = 1 - targets * (with_one @ weights.astype(features.dtype))
        loss = np.where(short > _BEND, short - _BEND / 2, np.maximum(short, 0) ** 2 / (2 * _BEND))
        slope = -targets * np.clip(short / _BEND, 0, 1)
        away = np.append(weights[:-1], 0.0)
        gradient = (slope.astype(features.dtype) @ with_one) / len(targets)
        return float(loss.mean() + penalty / 2 * away @ away), gradient + penalty * away

    start, options = np.zeros(with_one.shape[1]), {"maxiter": max_iterations}
    given = {"jac": True, "method": "L-BFGS-B", "options": options}
    return scipy.optimize.minimize(loss_and_slope, start, **given).x


def fit_best(
    config: Config, data: dict[str, Dataset], make: Callable[[Array, float], Array]
) -> Outcome:
    """Fits linear models by every scale and penalty and keeps the best on validation examples.

    Data are by "train", "validation" and "test"; `make(inputs, scale)` returns features [n, N].
    """
    scales = config.bandwidths if config.learner == "rbf" else (config.k**0.5,)
    history, best, right = [], {"validation_hinge": np.inf}, None
    for scale in scales:
        features = {
            name: np.asarray(make(jnp.asarray(part.inputs), scale)) for name, part in data.items()
        }
        for penalty in config.penalties:
            of_training = features["train"], data["train"].targets
            weights = fit_hinge(*of_training, penalty, config.max_iterations)
            row: dict[str, Any] = {"scale": scale, "penalty": penalty}
            for name, part in data.items():  # the test examples come last
                margins = part.targets * (features[name] @ weights[:-1] + weights[-1])
                row[f"{name}_hinge"] = float(np.maximum(1 - margins, 0).mean())
                row[f"{name}_accuracy"] = float((margins > 0).mean())
            # The offset is the weight of one more feature, which is always 1.
            row["norm"] = float(np.linalg.norm(weights))
            history.append(row)
            if row["validation_hinge"] < best["validation_hinge"]:
                best, right = row, margins > 0
    bound = config.p0 * (1 - (2 * (config.N + 1)) ** 0.5 * best["norm"] / 2**config.k)
    return Outcome({**best, "bound": max(bound, 0.0)}, history, outcomes=Outcomes(right))


def _run_linear(group: list[Point], progress: Progress) -> list[Outcome]:
    config, outcomes = group[0].config, []
    task, cut = make_task(network_point(group[0]).config), config.num_validation
    data = {
        "train": task.train,
        "validation": Dataset(*(a[:cut] for a in task.test)),
        "test": Dataset(*(a[cut:] for a in task.test)),
    }
    key = jax.random.key(config.seed)
    for done, point in enumerate(group, start=1):
        own = functools.partial(random_features, config.learner, key, count=point.config.N)
        make = jax.jit(own)
        outcomes.append(fit_best(point.config, data, lambda x, s, make=make: make(x, scale=s)))
        progress(done / len(group))
    return with_test(outcomes, task.test)


def _run_networks(group: list[Point], directory: Path, progress: Progress) -> list[Outcome]:
    """Trains networks and measures them at the end on the linear models' test examples."""
    outcomes = []
    for found in experiment.run([network_point(p) for p in group], None, directory, progress):
        if found.status == "ok":
            right = found.outcomes.values[group[0].config.num_validation :]
            metrics = {name: found.metrics[name] for name in ("train_accuracy", "cosine")}
            metrics["test_accuracy"] = float(right.mean())
            found = found._replace(metrics=metrics, outcomes=found.outcomes._replace(values=right))
        outcomes.append(found)
    return outcomes


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains a case's networks as replicas, or fits the linear models of one seed."""
    if group[0].config.learner == "network":
        return _run_networks(group, directory, progress)
    return _run_linear(group, progress)


def _columns(config: Config) -> dict[str, Any]:
    own = () if config.learner == "network" else ("N",)
    return {name: config[name] for name in ("learner", "num_patterns", "k", "seed", *own)}


# --- claims and report --------------------------------------------------------------------------


def has_bound(d: float, k: float) -> bool:
    """Whether theorem 2 is about a case; the settings accept odd k alone."""
    return 3 < k <= d / 16


def make_claims(config: Config) -> list[Claim]:
    """Returns two claims a case: models are above their bound, and the network is above them."""
    axes, claims = config.sweep, []
    for d, k in axes.cases:
        case = {"num_patterns": d, "k": k}
        network = accuracy(learner="network", **case)
        models = [
            accuracy(learner=features, N=count, **case)
            for features in axes.features
            for count in axes.N
        ]
        gap = Claim(
            item=f"points of test accuracy, network minus the best on fixed features, D = {d}, "
            f"k = {k}",
            statistic=lowest([minus(network, model) for model in models]),
            above=0.0,
            digits=2,
        )
        bound = Claim(
            item="seeds in which models on fixed features have at least the hinge loss of "
            f"their bound, where it is above 0, D = {d}, k = {k}",
            paper="all (theorem 2)",
            statistic=computed(_respects_bound, "test_hinge", learner=tuple(axes.features), **case),
            every=True,
            # Models above their bound are no lower bound where learned features do not help.
            conditions=(shown(gap, "the network is better"),),
        )
        claims += [bound, gap] if has_bound(d, k) else [gap]
    return claims


def _respects_bound(rows: pd.DataFrame) -> pd.Series:
    """Returns 1 in seeds whose linear models are all above their bounds, else 0.

    Models that are no better than the answer 0, whose hinge loss is 1, do not count: no bound
    reaches it.
    """
    rows = rows[(rows["bound"] > 0) & (rows["norm"] > 0) & (rows["test_hinge"] < 1)]
    holds = (rows["test_hinge"] >= rows["bound"]).astype(float)
    return holds.groupby(rows["seed"]).min()


_COLUMNS = {
    "test_accuracy": "test accuracy",
    "train_accuracy": "train accuracy",
    "test_hinge": "test hinge loss",
    "norm": "norm B",
    "bound": "bound of theorem 2",
}


def _table(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a case, kind of features and N; networks come last."""
    rows = fine.sort_values("learner", key=lambda names: names == "network", kind="stable")
    about = [has_bound(d, k) for d, k in zip(rows["num_patterns"], rows["k"], strict=True)]
    rows = rows.assign(bound=rows["bound"].where(about))
    return table_of_means(rows, ["num_patterns", "k", "learner", "N"], _COLUMNS)


def _draw(fine: pd.DataFrame) -> Any:
    """Draws test accuracy and hinge loss against N, one column of panels a case."""
    cases = list(fine.groupby(["num_patterns", "k"]))
    figure, axes = subplots(2, len(cases), 4.5, 3, sharex="col")
    for column, ((d, k), rows) in zip(axes.T, cases, strict=True):
        models = rows[rows["learner"] != "network"]
        for axis, measure in zip(column, ("test_accuracy", "test_hinge"), strict=True):
            draw_series(axis, models, "N", measure, "learner", marker="o")
        level = rows.loc[rows["learner"] == "network", "test_accuracy"].mean()
        column[0].axhline(level, color="black", ls="--", label="network")
        column[0].set(title=f"D = {d}, k = {k}", ylabel="test accuracy", ylim=(0.45, 1.02))
        column[1].set(xscale="log", xlabel="features, N", ylabel="test hinge loss")
        column[0].legend(frameon=False, fontsize="small")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table, the claims and the figure of a sweep."""
    # Networks alone have no columns of the linear models.
    rows = runs.finished.reindex(columns=runs.finished.columns.union(_COLUMNS, sort=False))
    runs = runs._replace(finished=rows.assign(num_test=config.num_test))
    notes = [
        "Means over seeds ± their standard deviation. Features are in [-1, 1] and drawn before the "
        "examples; features of a smaller N are the first ones of a larger N. Models are fitted by "
        f"the hinge loss (L-BFGS, {config.max_iterations} iterations at most), penalty and kernel "
        "scale chosen on validation examples. The theorem is about the worst choice of relevant "
        "patterns, and 3 < k <= D / 16; seeds draw them at random. Its bound is p0 (1 - sqrt(2 N) "
        "B / 2^k); it is 0 where the norm makes it negative, and no bound then."
    ]
    return Report(
        tables=[("Linear models on N fixed features", _table(runs.finished))],
        claims=make_claims(config),
        runs=runs,
        figures={"fixed_features": functools.partial(_draw, runs.finished)},
        notes=notes,
    )


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    fresh=lambda config: True,
    report_version=2,
    # Linear models of a seed that differ in N alone share their features.
    varying=lambda config: ("seed",) if config.learner == "network" else ("N",),
    columns=_columns,
    on_host=lambda config: config.learner != "network",
)
