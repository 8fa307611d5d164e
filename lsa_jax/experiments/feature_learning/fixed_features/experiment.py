"""Linear models on features that are fixed before the data are seen, and the network.

Shi, Wei and Liang (ICLR 2022), theorem 2 and corollary 3: on some parity mixture every linear model
on N bounded features has a large hinge loss unless N is exponential in k. This experiment shows the
best linear model that is found on N random neurons, and on N random features of an RBF kernel,
against N; and the network, which learns its features, on the same examples.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.fixed_features.report import make_report
from lsa_jax.experiments.feature_learning.learning import experiment
from lsa_jax.experiments.feature_learning.learning.settings import SETTINGS as NETWORK
from lsa_jax.experiments.feature_learning.learning.tasks import make_task
from lsa_jax.experiments.feature_learning.networks import truncated_relu
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Experiment, Outcome, with_test
from lsa_jax.sweep.points import Point
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

    Args:
        kind: "neurons", truncated ReLUs of <w, x> + b, with w and b as a network starts; "rbf",
            cos(<w, x> + b) with w ~ N(0, I / scale^2), b uniform (Rahimi and Recht, 2008).
        key: draws w and b.
        inputs: x.
        count: N.
        scale: of the kernel; for neurons the standard deviation of w is 1 / scale.
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
    for a parabola where 1 - `_BEND` < z < 1.

    Returns:
        w, and w_0 last.
    """
    with_one = np.concatenate([features, np.ones((len(features), 1), features.dtype)], axis=1)

    def loss_and_slope(weights: np.ndarray) -> tuple[float, np.ndarray]:
        short = 1 - targets * (with_one @ weights.astype(features.dtype))
        loss = np.where(short > _BEND, short - _BEND / 2, np.maximum(short, 0) ** 2 / (2 * _BEND))
        slope = -targets * np.clip(short / _BEND, 0, 1)
        away = np.append(weights[:-1], 0.0)
        gradient = (slope.astype(features.dtype) @ with_one) / len(targets)
        return float(loss.mean() + penalty / 2 * away @ away), gradient + penalty * away

    found = scipy.optimize.minimize(
        loss_and_slope,
        np.zeros(with_one.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations},
    )
    return found.x


def fit_best(
    config: ml_collections.ConfigDict,
    data: dict[str, Dataset],
    make: Callable[[Array, float], Array],
) -> Outcome:
    """Fits linear models by every scale and penalty and keeps the best on validation examples.

    Args:
        config: the point's.
        data: by "train", "validation", "test".
        make: `(inputs, scale) -> features [n, N]`.
    """
    scales = config.bandwidths if config.learner == "rbf" else (config.k**0.5,)
    history, best, right = [], {"validation_hinge": np.inf}, None
    for scale in scales:
        features = {
            name: np.asarray(make(jnp.asarray(part.inputs), scale)) for name, part in data.items()
        }
        for penalty in config.penalties:
            weights = fit_hinge(
                features["train"], data["train"].targets, penalty, config.max_iterations
            )
            row: dict[str, Any] = {"scale": scale, "penalty": penalty}
            margins = {
                name: part.targets * (features[name] @ weights[:-1] + weights[-1])
                for name, part in data.items()
            }
            for name, values in margins.items():
                row[f"{name}_hinge"] = float(np.maximum(1 - values, 0).mean())
                row[f"{name}_accuracy"] = float((values > 0).mean())
            # The offset is the weight of one more feature, which is always 1.
            row["norm"] = float(np.linalg.norm(weights))
            history.append(row)
            if row["validation_hinge"] < best["validation_hinge"]:
                best, right = row, margins["test"] > 0
    bound = config.p0 * (1 - (2 * (config.N + 1)) ** 0.5 * best["norm"] / 2**config.k)
    return Outcome({**best, "bound": max(bound, 0.0)}, history, outcomes=Outcomes(right))


def _run_linear(group: list[Point], progress: Callable[[float], None]) -> list[Outcome]:
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


def _run_networks(
    group: list[Point], directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
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


def run(
    group: list[Point], data: None, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Trains a case's networks as replicas, or fits the linear models of one seed."""
    del data
    if group[0].config.learner == "network":
        return _run_networks(group, directory, progress)
    return _run_linear(group, progress)


def _columns(config: ml_collections.ConfigDict) -> dict[str, Any]:
    own = () if config.learner == "network" else ("N",)
    return {name: config[name] for name in ("learner", "num_patterns", "k", "seed", *own)}


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    # Linear models of a seed that differ in N alone share their features.
    varying=lambda config: ("seed",) if config.learner == "network" else ("N",),
    columns=_columns,
    on_host=lambda config: config.learner != "network",
)
