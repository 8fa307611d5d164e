"""The best linear model on the features after one step or two: least squares, in float64.

Shi, Wei and Liang (2022), appendix E.1, train "the best classifier" on frozen features. After a
step as small as theirs features differ by a millionth of themselves, too little for float32;
descent on them, tried at one rate, stays at chance.
"""

import functools

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import scipy.linalg
from jaxtyping import Float

from lsa_jax.experiments.feature_learning.learning.learners import (
    FEW_EXAMPLES,
    LearnerReplica,
    class_weights,
    first_stages,
    initial_params,
    make_replica,
    neuron_measures,
)
from lsa_jax.experiments.feature_learning.learning.tasks import make_task
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Outcome, with_test

# Learners of this kind, and the number of first steps of their features.
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

    Where it is small compared with the biases' scale, features are nearly linear: a neuron is
    linear on examples between its kinks.
    """
    w, rows = np.asarray(w, np.float64), np.asarray(inputs, np.float64)
    moments = rows.T @ rows / len(rows)
    return float(np.sqrt(np.mean(np.sum(w * (moments @ w), axis=0))))


def _stages(config: ml_collections.ConfigDict, replica: LearnerReplica) -> tuple:
    return first_stages(config, replica), initial_params(config, replica)[1]


def fit(config: ml_collections.ConfigDict) -> Outcome:
    """Returns the outcome of the best linear model on a seed's features.

    Its measures are those of `measure`, and the size of its neurons' pre-activations.
    """
    task = make_task(config)
    replica, (inputs, targets) = make_replica(config, task), task.train
    stages, idle = jax.jit(functools.partial(_stages, config))(replica)
    params, idle_scale = stages[EXACT[config.learner]]
    weights = np.ones(len(targets))
    if config.class_weights == "all_steps":
        weights = np.asarray(class_weights(jnp.asarray(targets)), np.float64)
    train = _features(params, inputs)
    model = least_squares(train, np.asarray(targets, np.float64), weights)
    right = (_features(params, task.test.inputs) @ model > 0) == (task.test.targets > 0)
    classes = [right[task.test.targets == label].mean() for label in (-1, 1)]
    count = len(right)
    known = (train[:count] @ model > 0) == (targets[:count] > 0)
    neurons = neuron_measures(config, params, idle_scale * idle, replica.direction)
    measures = {
        "train_accuracy": float(known.mean()),
        "test_accuracy": float(right.mean()),
        "test_balanced_accuracy": float(np.mean(classes)),
        "test_first_accuracy": float(right[:FEW_EXAMPLES].mean()),
        "feature_size": feature_size(np.asarray(params["w"]), inputs),
        **{name: float(value) for name, value in neurons.items()},
    }
    row = {"step": EXACT[config.learner]} | measures
    return with_test([Outcome(measures, [row], outcomes=Outcomes(right))], task.test)[0]
