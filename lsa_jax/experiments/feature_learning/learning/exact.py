"""The best linear model on the features after one step or two: least squares, in float64.

Shi, Wei and Liang (2022), appendix E.1, train "the best classifier" on frozen features. After a
step as small as theirs features differ by a millionth of themselves, which float32 hardly tells
apart; descent on them, tried at one rate, stays at chance.
"""

import functools

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import scipy.linalg
from jaxtyping import Float

from lsa_jax.experiments.feature_learning.learning.stages import (
    LearnerReplica,
    class_weights,
    first_stages,
    initial_params,
    make_replica,
)
from lsa_jax.experiments.feature_learning.learning.tasks import make_task
from lsa_jax.experiments.feature_learning.learning.training import FEW_EXAMPLES, neuron_measures

# Learners of this kind and after how many first steps their features are taken.
EXACT = {"one_step_exact": 1, "two_step_exact": 2}


def least_squares(
    features: Float[np.ndarray, "n p"],
    targets: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " p"]:
    """Returns the a of least norm with the least sum of weights * (features a - targets)^2."""
    root = np.sqrt(weights)[:, None]
    both = np.concatenate([features, targets[:, None]], axis=1) * root
    (triangle,) = scipy.linalg.qr(both, mode="r", overwrite_a=True, check_finite=False)
    p = features.shape[1]
    tolerance = np.finfo(float).eps * max(features.shape)
    return np.linalg.lstsq(triangle[:p, :p], triangle[:p, p], rcond=tolerance)[0]


def _features(params: dict, inputs: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    w, b = (np.asarray(params[name], np.float64) for name in "wb")
    return np.clip(np.asarray(inputs, np.float64) @ w + b, 0, 1)


def feature_size(w: Float[np.ndarray, "d p"], inputs: Float[np.ndarray, "n d"]) -> float:
    """Returns the root mean square of <w, x> over neurons and examples.

    Beside the biases' scale it tells how far features are from linear: a neuron is, on the examples
    that do not reach its kinks.
    """
    rows = np.asarray(inputs, np.float64)
    moments = rows.T @ rows / len(rows)
    w = np.asarray(w, np.float64)
    return float(np.sqrt(np.mean(np.sum(w * (moments @ w), axis=0))))


def _stages(config: ml_collections.ConfigDict, replica: LearnerReplica) -> tuple:
    return first_stages(config, replica), initial_params(config, replica)[1]


def fit(config: ml_collections.ConfigDict) -> dict[str, float]:
    """Returns the measures of the best linear model on a seed's features.

    They are those of `measure`, and the size of what its neurons see.
    """
    task = make_task(config)
    replica = make_replica(config, task)
    stages, idle = jax.jit(functools.partial(_stages, config))(replica)
    params, idle_scale = stages[EXACT[config.learner]]
    weights = np.ones(len(task.train.targets))
    if config.class_weights == "all_steps":
        weights = np.asarray(class_weights(jnp.asarray(task.train.targets)), np.float64)
    train = _features(params, task.train.inputs)
    model = least_squares(train, np.asarray(task.train.targets, np.float64), weights)
    right = (_features(params, task.test.inputs) @ model > 0) == (task.test.targets > 0)
    classes = [right[task.test.targets == label] for label in (-1, 1)]
    few = len(task.test.targets)
    known = (train[:few] @ model > 0) == (task.train.targets[:few] > 0)
    found = neuron_measures(config, params, idle_scale * idle, replica.direction)
    return {
        "train_accuracy": float(known.mean()),
        "test_accuracy": float(right.mean()),
        "test_balanced_accuracy": float(np.mean([own.mean() for own in classes])),
        "test_first_accuracy": float(right[:FEW_EXAMPLES].mean()),
        "feature_size": feature_size(np.asarray(params["w"]), task.train.inputs),
        **{name: float(value) for name, value in found.items()},
    }
