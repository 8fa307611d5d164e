"""Effects of leaving an example out, predicted by influence functions and by training again.

For the logistic model with a ridge, L(w) = 1/m sum_j l_j(w) + lambda/2 |w|^2 on m examples, the
bias among the weights. Without example i the sum has m - 1 terms, still over m, so to first order

    w_(-i) - w = 1/m H^{-1} grad l_i(w),    H = Hessian of L at w.

Retraining finds the optimum by Newton's method; all in float64.

Source: Cook and Weisberg (1982); Koh and Liang, Understanding black-box predictions via influence
functions (2017), section 2.1.
"""

from typing import Any

import jax
import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Float, Int
from scipy.special import expit

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.stability.samples import Data, ExamplePool, draw_pair, unpacked_scale
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Config, Outcome

# Length of the gradient at which an optimum counts as reached, and the most steps to it.
_TOLERANCE, _MAX_STEPS = 1e-10, 200

_Matrix = Float[np.ndarray, "m d"]
_Vector = Float[np.ndarray, " d"]
_Changes = Float[np.ndarray, "removed d"]


def _slopes(w: _Vector, x: _Matrix, y: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Returns dl_j/df_j."""
    return -y * expit(-y * (x @ w))


def _hessian(w: _Vector, x: _Matrix, ridge: float) -> Float[np.ndarray, "d d"]:
    probability = expit(x @ w)
    curvature = probability * (1 - probability) / len(x)
    return (x.T * curvature) @ x + ridge * np.eye(len(w))


def leave_one_out(
    x: _Matrix, y: Float[np.ndarray, " m"], ridge: float, removed: Int[np.ndarray, " removed"]
) -> tuple[_Vector, _Changes, _Changes]:
    """Returns the optimum on all examples, its predicted changes without some, and the true ones.

    Inputs x have a column of ones; y are signs. Examples are left out one at a time.

    Raises:
        NumericalError: a gradient does not vanish, or the Hessian is singular.
    """

    def gradient(w: _Vector, weights: Any = 1.0) -> _Vector:
        return x.T @ (weights * _slopes(w, x, y)) / len(x) + ridge * w

    def loss(w: _Vector) -> float:
        return np.logaddexp(0, -y * (x @ w)).mean() + ridge / 2 * (w @ w)

    def descend(w: _Vector, weights: Float[np.ndarray, " m"]) -> _Vector:
        """Takes Newton's steps from near the optimum, all with its Hessian."""
        for _ in range(_MAX_STEPS):
            slope = gradient(w, weights)
            if np.linalg.norm(slope) < _TOLERANCE:
                return w
            w = w - scipy.linalg.cho_solve(factor, slope)
        raise NumericalError(
            f"the gradient is still {np.linalg.norm(slope):.1e} after {_MAX_STEPS} Newton steps; "
            "raise config.influence.ridge"
        )

    near = scipy.optimize.minimize(
        loss,
        np.zeros(x.shape[1]),
        method="trust-exact",
        jac=gradient,
        hess=lambda w: _hessian(w, x, ridge),
        options={"gtol": 1e-6},
    ).x
    try:
        factor = scipy.linalg.cho_factor(_hessian(near, x, ridge))
    except np.linalg.LinAlgError:
        raise NumericalError(
            f"with a ridge of {ridge:g} the Hessian is singular to rounding; raise "
            "config.influence.ridge"
        ) from None
    w = descend(near, np.ones(len(x)))
    factor = scipy.linalg.cho_factor(_hessian(w, x, ridge))
    gradients = _slopes(w, x, y)[removed, None] * x[removed]
    predicted = scipy.linalg.cho_solve(factor, gradients.T).T / len(x)
    without = 1.0 - (removed[:, None] == np.arange(len(x)))
    starts = zip(w + predicted, without, strict=True)
    return w, predicted, np.stack([descend(*start) for start in starts]) - w


def _with_ones(pool: ExamplePool, rows: np.ndarray) -> _Matrix:
    inputs = np.asarray(pool.inputs[rows], np.float64) * unpacked_scale(pool.inputs)
    return np.concatenate([inputs, np.ones((len(rows), 1))], axis=1)


def _stability(
    w: _Vector, changes: Float[np.ndarray, "removed d"], x: _Matrix, y: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " removed"]:
    """Returns the largest change of a test example's loss, for each example left out."""
    before = np.logaddexp(0, -y * (x @ w))
    after = np.logaddexp(0, -y[:, None] * (x @ (w[:, None] + changes.T)))
    return np.abs(after - before[:, None]).max(axis=0)


def run_influence(config: Config, data: Data) -> Outcome:
    """Compares both ways on the sample of the seed's first pair of this size.

    The examples that are left out are the first ones of the sample, which is in random order.
    """
    pool, num_train = data
    pair = draw_pair(config.seed, config.m, 0, perturbation="removal", **data.sizes)
    rows = np.asarray(jax.device_get(pair.sample))
    x, y = _with_ones(pool, rows), np.asarray(pool.targets[rows], np.float64)
    removed = np.arange(config.influence.removed)
    w, predicted, retrained = leave_one_out(x, y, config.influence.ridge, removed)
    test = np.arange(num_train, len(pool.targets))
    x_test, y_test = _with_ones(pool, test), np.asarray(pool.targets[test], np.float64)
    columns = {
        "predicted_stability": _stability(w, predicted, x_test, y_test),
        "stability": _stability(w, retrained, x_test, y_test),
        "predicted_distance": np.linalg.norm(predicted, axis=1),
        "distance": np.linalg.norm(retrained, axis=1),
        "error": np.linalg.norm(predicted - retrained, axis=1),
    }
    history = [
        {"removed": i, **{name: float(values[i]) for name, values in columns.items()}}
        for i in range(len(removed))
    ]
    largest = ("stability", "predicted_stability", "distance", "predicted_distance")
    correlation = np.corrcoef(columns["stability"], columns["predicted_stability"])[0, 1]
    metrics = {name: float(columns[name].max()) for name in largest} | {
        "correlation": float(correlation),
        "relative_error": float(np.median(columns["error"] / columns["distance"])),
        "norm": float(np.linalg.norm(w)),
    }
    return Outcome(metrics, history, outcomes=Outcomes(y_test * (x_test @ w) > 0))
