"""Full-batch gradient descent on alpha (f - f_0), for laws of lazy and rich training.

Networks are in the NTK parameterisation, losses half the squared distance. The rate is that on
w = alpha (theta - theta_0), see `models.scaled`, which is alpha^2 times that on theta.
Measured losses are squared distances over the targets' mean square: the output 0 has 1.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from lsa_jax import backend, models, training
from lsa_jax.data import images, tasks
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.theory.laws.report import FROM, LEVEL, make_report
from lsa_jax.experiments.theory.laws.settings import LAWS
from lsa_jax.models.model import Model, NoKernel, batch_of_one
from lsa_jax.models.scaled import network_params
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress
from lsa_jax.training import measures
from lsa_jax.training.course import Course, Measuring
from lsa_jax.training.segments import Checkpoints, Evaluations, kept_if, run_evaluations

# Streams of a seed's key.
_INIT, _TRAIN, _TEST = range(3)
# Pixels of the digits are in [0, 1], with about this mean and deviation.
_MEAN, _STD = 0.3, 0.37


class State(NamedTuple):
    """A network between two steps; `step` stays at the first loss that is not finite."""

    params: PyTree
    step: Int[Array, ""]


class Replica(NamedTuple):
    """One run's rate and examples."""

    rate: Float[Array, ""]
    train: Dataset
    test: Dataset


# --- tasks --------------------------------------------------------------------------------------


def load(points: list[Point], data_dir: Path | None) -> tuple[Dataset, Dataset] | None:
    """Reads the digits, where points need them: both splits, one-hot targets without their mean."""
    if all(LAWS[point.config.law].task != "digits" for point in points):
        return None
    view = tasks.task_view(images.load("digits", data_dir), "all")
    return tuple(
        Dataset((part.inputs - _MEAN) / _STD, part.targets - 0.1)
        for part in (view.train, view.test)
    )


def draw(config: Config, data: tuple[Dataset, Dataset] | None) -> tuple[Dataset, Dataset]:
    """Returns the training and test examples of a point's seed.

    "quadratic": Gaussian inputs x and targets x_1^2 / sqrt(3), whose mean square is 1. "circle":
    see `circle`, evenly spaced angles; those of the test are shifted by half a step.
    """
    key, found, task = jax.random.key(config.seed), [], LAWS[config.law].task
    for stream, size in ((_TRAIN, config.num_train), (_TEST, config.num_test)):
        own = jax.random.fold_in(key, stream)
        if task == "quadratic":
            inputs = jax.random.normal(own, (size, config.dimension))
            found.append(Dataset(inputs, inputs[:, :1] ** 2 / np.sqrt(3)))
        elif task == "circle":
            shift = 0.5 * (stream == _TEST)
            found.append(circle(config, 2 * np.pi * (np.arange(size) + shift) / size))
        else:
            part = data[stream - _TRAIN]
            index = jax.random.permutation(own, len(part.targets))[:size]
            found.append(Dataset(part.inputs[index], part.targets[index]))
    return tuple(found)


def circle(config: Config, angles: Float[np.ndarray, " n"]) -> Dataset:
    """Returns points on the circle, times sqrt(2), and their targets, whose mean square is 1.

    A target is the sum over k of sqrt(2 p_k) cos(k angle + phase_k), for all k below half of the
    number of training examples, with phases of the seed or 0. The powers p_k, p_(k+1), ... sum to
    k^(-2 beta) exactly: the last mode has all that is left.
    """
    modes = np.arange(1, config.num_train // 2)
    power = -np.diff(modes ** (-2 * config.source_exponent), append=0.0)
    phases = np.zeros(len(modes))
    if config.phases == "random":
        key = jax.random.fold_in(jax.random.key(config.seed), _TRAIN)
        phases = 2 * np.pi * np.asarray(jax.random.uniform(key, modes.shape), float)
    waves = np.cos(np.multiply.outer(angles, modes) + phases)
    inputs = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    targets = waves @ np.sqrt(2 * power)
    return Dataset(inputs.astype(np.float32), targets[:, None].astype(np.float32))


@functools.cache
def _quadratic(width: int, curvature: float) -> Model:
    def init(key: Array, input_shape: Any) -> Float[Array, "d n"]:
        return jax.random.normal(key, (*batch_of_one(input_shape).shape[1:], width))

    def apply(params: Float[Array, "d n"], inputs: Float[Array, "b d"]) -> Float[Array, "b 1"]:
        fields = inputs @ params / np.sqrt(len(params))
        units = fields + curvature / 2 * fields**2
        return jnp.sum(units, axis=1, keepdims=True) / np.sqrt(width)

    return Model(init, apply, NoKernel("its readout is not trained"))


def build(config: Config) -> Model:
    """Returns a point's network f; equal settings share one.

    "quadratic": Kumar et al. (2023), f = sum_i phi(w_i . x / sqrt(d)) / sqrt(width) with
    phi(h) = h + epsilon h^2 / 2, a trained first layer and a fixed readout.
    """
    hidden = (config.width,) * (config.depth - 1)
    if config.law == "grokking":
        return _quadratic(config.width, config.curvature)
    if config.law == "scaling":  # without biases two layers have no odd modes above 1
        return _network(models.mlp, 1, widths=hidden, b_std=1.0)
    if config.model == "cnn":
        return _network(models.cnn, 10, channels=hidden)
    return _network(models.mlp, 10, widths=hidden)


@functools.cache
def _network(make: Callable[..., Model], outputs: int, **settings: Any) -> Model:
    return make(1, outputs, **settings)


# --- training -----------------------------------------------------------------------------------


def _loss(model: Model, params: PyTree, data: Dataset) -> Float[Array, ""]:
    distances = jnp.sum((model.apply(params, data.inputs) - data.targets) ** 2)
    return distances / jnp.sum(data.targets**2)


def advance(
    model: Model, state: State, replica: Replica, count: Int[Array, ""]
) -> tuple[State, dict[str, Array]]:
    """Takes steps of gradient descent on w, and measures both losses where it then stands."""
    first, (inputs, targets) = state.step, replica.train

    def loss(moved: PyTree) -> Float[Array, ""]:
        outputs = model.apply({**state.params, "moved": moved}, inputs)
        return jnp.mean(training.squared_error(outputs, targets))

    def take(index: Array, now: State) -> State:
        value, gradient = jax.value_and_grad(loss)(now.params["moved"])
        moved = jax.tree.map(lambda w, g: w - replica.rate * g, now.params["moved"], gradient)
        going = (now.step == first + index) & jnp.isfinite(value)
        return kept_if(going, State({**now.params, "moved": moved}, now.step + 1), now)

    state = lax.fori_loop(0, count, take, state)
    losses = {
        f"{name}_loss": _loss(model, state.params, data)
        for name, data in (("train", replica.train), ("test", replica.test))
    }
    return state, losses


def marks_of(config: Config) -> list[int]:
    """Returns the steps at which a run is evaluated, 0 first: even, or even in log steps."""
    spaced = np.geomspace if config.law in ("grokking", "scaling") else np.linspace
    found = spaced(1, config.steps, config.evaluations) if config.evaluations > 1 else []
    return sorted({0, *np.round(found).astype(int).tolist(), config.steps})


def _course(config: Config, model: Model, spread: Replica, starts: PyTree) -> Course | None:
    """Returns the law's measures; kernels are of f, the sharpness is of the loss in w."""
    names = LAWS[config.law].measures
    if not names or backend.dry_run() is not None:
        return None

    def sharpness(replica: int, params: PyTree) -> float:
        inputs, targets = (part[replica] for part in spread.train)
        return measures.sharpness(model.apply, params, inputs, targets, training.squared_error)

    network = functools.partial(network_params, output_scale=config.output_scale)
    inputs, targets = (np.asarray(part)[:, : config.measured_examples] for part in spread.train)
    given = build(config).apply, network(starts), inputs, targets, marks_of(config), sharpness
    return Course(Measuring(names, network=network), *given)


def run(
    group: list[Point], data: tuple[Dataset, Dataset] | None, directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains a group's points as replicas. In the law of the rate a divergence is an outcome."""
    config, layout = group[0].config, ReplicaLayout(len(group))
    model = models.scaled(build(config), config.output_scale)
    replicas = [
        Replica(jnp.float32(point.config.learning_rate), *draw(point.config, data))
        for point in group
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *replicas)
    keys = jnp.stack([jax.random.key(point.config.seed) for point in group])

    def start(key: Array) -> State:
        own = jax.random.fold_in(key, _INIT)
        return State(model.init(own, stacked.train.inputs.shape[2:]), jnp.int32(0))

    spread = layout.spread(stacked)
    begun = layout.gather(layout.map(start, 1)(layout.spread(keys)))
    program = layout.map(functools.partial(advance, model), 2)
    runs = run_evaluations(
        layout,
        lambda state, count: program(state, spread, count),
        [begun],
        marks_of(config),
        kept=Checkpoints(directory, max(1, config.evaluations // 4)),
        course=_course(config, model, stacked, begun.params),
        progress=progress,
    )
    return [
        _outcome(point.config, runs, place, replica.train)
        for place, (point, replica) in enumerate(zip(group, replicas, strict=True))
    ]


# --- results of a run ---------------------------------------------------------------------------


def _outcome(config: Config, runs: Evaluations, replica: int, train: Dataset) -> Outcome:
    rows = runs.history(replica)
    diverged = bool(runs.stopped[replica] or not np.isfinite(rows[-1]["train_loss"]))
    if diverged:
        if config.law == "rate":
            return Outcome({"diverged": True}, rows)
        message = f"the loss was not finite at step {rows[-1]['step']}; lower the learning rate"
        return Outcome({}, rows, "failed", message)
    if config.law == "scaling":
        known = kernel_losses(build(config), train, config.learning_rate, marks_of(config))
        rows = [row | {"kernel_loss": loss} for row, loss in zip(rows, known, strict=True)]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    found = {"diverged": False} | {n: rows[-1][n] for n in ("train_loss", "test_loss")}
    if config.law == "grokking":
        found |= falls(columns)
    if config.law == "sharpness":
        found |= edge(columns, config.learning_rate)
    if config.law == "scaling":
        found |= exponents(columns)
    return Outcome(found, rows)


def crossing(steps: np.ndarray, values: np.ndarray, level: float) -> float:
    """Returns the step at which values first fall below a level; infinite where they do not.

    Between two evaluations log values are linear in log steps.
    """
    below = np.flatnonzero(values < level)
    if not len(below) or not below[0]:
        return np.inf if not len(below) else float(steps[0])
    pair = slice(below[0] - 1, below[0] + 1)
    before, after = np.log(values[pair] / level)
    places = np.log(np.maximum(steps[pair], 1))
    return float(np.exp(places[0] + before / (before - after) * (places[1] - places[0])))


def falls(columns: dict[str, np.ndarray]) -> dict[str, float]:
    """Returns when both losses fall below `LEVEL`, and how far the kernel has moved by then.

    They are the steps; the delay, log2 of their ratio; measures at both. A test loss that never
    falls counts with the last step, which bounds the delay from below. Without a fall of the
    training loss there are no numbers.
    """
    steps, found = columns["step"], {}
    last = float(steps[-1])
    at = {name: crossing(steps, columns[f"{name}_loss"], LEVEL) for name in ("train", "test")}
    found["test_falls"] = float(at["test"] <= last)
    at["test"] = min(at["test"], last)
    if not at["train"] <= last:
        return found
    for name, step in at.items():
        found[f"{name}_step"] = step
        for measure in LAWS["grokking"].measures:
            known = np.isfinite(columns[measure])  # at the start nothing has moved
            places = np.log(np.maximum(steps, 1))[known]
            found[f"{measure}_{name}"] = float(
                np.interp(np.log(step), places, columns[measure][known])
            )
    found["delay"] = float(np.log2(at["test"] / at["train"]))
    moved = found["kernel_distance_test"]
    if moved > 0:
        found["kernel_between"] = 1 - found["kernel_distance_train"] / moved
    return found


def edge(columns: dict[str, np.ndarray], rate: float) -> dict[str, float]:
    """Returns mean sharpnesses over 2 / rate, at the start and over the last half."""
    sharpness, steps = columns["sharpness"], columns["step"]
    late = float(sharpness[2 * steps >= steps[-1]].mean())
    start = float(sharpness[0])
    return {
        "start_ratio": start * rate / 2,
        "edge_ratio": late * rate / 2,
        "sharpening": late / start,
    }


def kernel_losses(model: Model, train: Dataset, rate: float, steps: Sequence[int]) -> list[float]:
    """Returns the training losses of gradient descent with the infinite NTK on a circle's points.

    The kernel matrix of evenly spaced points is circulant: Fourier modes are its eigenvectors.
    """
    inputs, targets = (np.asarray(part, float) for part in train)
    count = len(inputs)
    row = np.asarray(model.kernel(train.inputs[:1], train.inputs), float)[0]
    values, power = np.fft.fft(row).real / count, np.abs(np.fft.fft(targets[:, 0])) ** 2
    left = (1 - rate * values) ** (2 * np.asarray(steps)[:, None])
    return (left @ power / power.sum()).tolist()


def exponents(columns: dict[str, np.ndarray]) -> dict[str, float]:
    """Returns the powers of 1 / step with which the losses fall, from `FROM` of the steps on.

    They are NaN where there is one evaluation from there on.
    """
    late = columns["step"] >= FROM * columns["step"][-1]
    at, few = np.log(columns["step"][late]), late.sum() < 2
    return {
        name: np.nan if few else -float(np.polyfit(at, np.log(columns[column][late]), 1)[0])
        for name, column in (("exponent", "train_loss"), ("kernel_exponent", "kernel_loss"))
    }


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    varying=("learning_rate", "seed"),
    in_parts=True,
    report_version=3,
)
