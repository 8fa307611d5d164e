"""Where the neurons of a two-layer network turn to, on two classes of images and on clusters.

Shi, Wei and Liang (ICLR 2022), appendices E.3.2 (mixtures of Gaussians) and E.4 (real data): an
ordinary ReLU network, plain SGD with momentum; directions of its weights after a few steps.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int, Key

from lsa_jax.data import images, tasks
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.experiments.feature_learning import dictionary
from lsa_jax.experiments.feature_learning.learning.pictures import (
    NEAR,
    picture_rows,
    silhouette,
    spherical_means,
    unit_rows,
)
from lsa_jax.experiments.feature_learning.learning.training import batch_rows
from lsa_jax.experiments.feature_learning.streams import WeightClouds
from lsa_jax.experiments.feature_learning.weight_clouds.claims import COUNTS
from lsa_jax.experiments.feature_learning.weight_clouds.report import make_report
from lsa_jax.models import Dense, Model, Relu, network
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.reporting.measure_names import is_measure
from lsa_jax.sweep.experiment import Experiment, Outcome, with_last_measures
from lsa_jax.sweep.points import Point
from lsa_jax.training import LOSSES, is_correct, make_optimizer
from lsa_jax.training.course import Course, Measuring, course_of
from lsa_jax.training.segments import Checkpoints, kept_if, run_segments


class Cloud(NamedTuple):
    """What a network learns from.

    Attributes:
        train: inputs [n, d] of mean zero and mean squared length 1, targets [n], -1.0 or 1.0.
        test: likewise, normalised as the training inputs are.
        centres: [clusters, d] and their labels, of a mixture; none of images.
    """

    train: Dataset
    test: Dataset
    centres: Dataset


class CloudState(NamedTuple):
    """One run between two steps; `step` stays where it is once a loss was not finite."""

    params: Any
    opt_state: Any
    step: Int[Array, ""]


def load(points: list[Point], data_dir: Path | None) -> Cloud | None:
    """Reads two classes of images; None for a mixture, which every seed draws for itself."""
    config = points[0].config
    if config.data.dataset == "gaussian_mixture":
        return None
    task = tasks.task_view(
        images.load(config.data.dataset, data_dir), "all", classes=config.data.classes
    )
    flat = [
        (part.inputs[:count].reshape(len(part.inputs[:count]), -1), part.targets[:count])
        for part, count in (
            (task.train, config.data.num_train),
            (task.test, config.data.num_test),
        )
    ]
    mean, scale = dictionary.normalisation(flat[0][0])
    splits = [Dataset((x - mean[None]) / np.float32(scale), 2 * t[:, 1] - 1) for x, t in flat]
    none = Dataset(np.zeros((0, len(mean)), np.float32), np.zeros(0, np.float32))
    return Cloud(*splits, centres=none)


def make_mixture(config: ml_collections.ConfigDict) -> Cloud:
    """Draws a seed's clusters."""
    data, key = config.data, jax.random.key(config.seed)
    matrix = dictionary.orthonormal_dictionary(
        jax.random.fold_in(key, WeightClouds.CENTRES), data.d, data.k
    )
    variance = data.sigma_r**2 * (data.k if data.variance == "k/d" else 1) / data.d
    parts = [
        dictionary.gaussian_mixture(jax.random.fold_in(key, stream), count, matrix, variance**0.5)
        for stream, count in (
            (WeightClouds.TRAIN, data.num_train),
            (WeightClouds.TEST, data.num_test),
        )
    ]
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * data.k)).reshape(data.k, -1).T
    centres = Dataset((signs @ np.asarray(matrix).T).astype(np.float32), signs.prod(axis=1))
    return Cloud(*parts, centres=centres)


def build_model(config: ml_collections.ConfigDict, d: int) -> Model:
    """Returns one hidden layer of ReLUs with entries of the standard deviations set, biases 0."""
    return network(
        [
            Dense(config.m, w_std=config.init_std * d**0.5, b_std=0.0),
            Relu(),
            Dense(1, w_std=config.output_std * config.m**0.5),
        ],
        parameterization="standard",
    )


def advance(
    config: ml_collections.ConfigDict,
    count: int,
    state: CloudState,
    key: Key[Array, ""],
    cloud: tuple[Dataset, Dataset],
    num_steps: Int[Array, ""],
) -> tuple[CloudState, Float[Array, ""]]:
    """Takes up to `count` steps and returns the state and the test accuracy there."""
    train, test = cloud
    apply, loss = build_model(config, train.inputs.shape[1]).apply, LOSSES[config.loss]
    optimizer = make_optimizer("momentum", config.learning_rate, momentum=config.momentum)
    first = state.step
    size = min(config.batch_size, len(train.targets))
    rows = batch_rows(
        jax.random.fold_in(key, WeightClouds.ORDER), first, count, len(train.targets), size
    )

    def take(index: Array, state: CloudState) -> CloudState:
        inputs, targets = train.inputs[rows[index]], train.targets[rows[index]]
        value, gradient = jax.value_and_grad(
            lambda params: jnp.mean(loss(apply(params, inputs), targets))
        )(state.params)
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        after = CloudState(optax.apply_updates(state.params, updates), opt_state, state.step + 1)
        going = jnp.isfinite(value) & (state.step == first + index)
        return kept_if(going, after, state)

    state = lax.fori_loop(0, num_steps, take, state)
    return state, jnp.mean(is_correct(apply(state.params, test.inputs), test.targets))


def best_count(weights: Float[np.ndarray, "m d"]) -> int:
    """Returns the number of clusters, of `COUNTS`, that directions fall into best: by silhouette.

    Source: Rousseeuw (1987), Silhouettes, section 4.
    """
    found = {
        count: silhouette(weights, spherical_means(weights, count)[1])
        for count in COUNTS
        if count < len(weights)
    }
    return max(found, key=lambda count: found[count])


def measure_directions(
    config: ml_collections.ConfigDict,
    weights: Float[np.ndarray, "m d"],
    signs: Float[np.ndarray, " m"],
    centres: Float[np.ndarray, "c d"],
) -> dict[str, float]:
    """Measures how directions cluster.

    Returns:
        Mean cosine of two neurons whose outputs have the same sign, and of two of opposite sign;
        of spherical k-means the mean cosine with the own centre, the least of two centres, the
        silhouette, and the number of clusters, of `COUNTS`, with the largest silhouette; and the
        largest cosine with a centre of the mixture, mean and least over its centres, with the
        share of them that it is `NEAR` of.
    """
    rows = unit_rows(weights)
    products = rows @ rows.T
    same = np.equal.outer(signs, signs)
    opposite = ~same
    np.fill_diagonal(same, False)
    found, cluster = spherical_means(weights, config.clusters)
    row = {
        "same_sign_cosine": float(products[same].mean()),
        "opposite_sign_cosine": float(products[opposite].mean()),
        "own_centre_cosine": float((rows * found[cluster]).sum(axis=1).mean()),
        "centres_cosine": float((found @ found.T).min()),
        "silhouette": silhouette(weights, cluster),
        "best_count": float(best_count(weights)),
    }
    if len(centres):
        best = (unit_rows(centres) @ rows.T).max(axis=1)
        row |= {"covered": float(best.mean()), "least_covered": float(best.min())}
        row["share_covered"] = float((best >= NEAR).mean())
    return row


def _weights(params: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(params["Dense_0"]["weight"]).T, np.sign(params["Dense_1"]["weight"][:, 0])


def _course(
    config: ml_collections.ConfigDict, model: Model, clouds: list[Cloud], starts: Any
) -> Course | None:
    """Returns what is measured of the networks on their way; None if nothing."""

    def fetch(replica: int, index: Array) -> tuple[Any, Any]:
        train = clouds[replica].train
        return train.inputs[index], train.targets[index]

    return course_of(
        Measuring(config.measures, config.measured_examples),
        model.apply,
        starts,
        fetch,
        len(clouds[0].train.targets),
        sorted({0, *config.pictures}),
        config.batch_size * config.pictures[-1],
    )


def run(
    group: list[Point], data: Cloud | None, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Trains the networks of all seeds together and measures their directions on the way."""
    config, layout = group[0].config, ReplicaLayout(len(group))
    clouds = [make_mixture(p.config) if data is None else data for p in group]
    keys = jnp.stack([jax.random.key(p.config.seed) for p in group])
    d = clouds[0].train.inputs.shape[1]
    model = build_model(config, d)
    optimizer = make_optimizer("momentum", config.learning_rate, momentum=config.momentum)

    def init(key: Key[Array, ""]) -> CloudState:
        params = model.init(jax.random.fold_in(key, WeightClouds.INIT), (d,))
        return CloudState(params, optimizer.init(params), jnp.int32(0))

    spread_keys = layout.spread(keys)
    state = layout.map(init, 1)(spread_keys)
    starts = layout.gather(state).params
    snapshots = jax.tree.map(
        lambda leaf: np.zeros((len(config.pictures), *leaf.shape), leaf.dtype), starts
    )
    course = _course(config, model, clouds, starts)
    accuracy = np.full((len(config.pictures), len(group)), np.nan)
    counts = np.diff(config.pictures, prepend=0)
    function = functools.partial(advance, config, max(*counts.tolist(), 1))
    program = layout.map(function, 3 if data is None else 2)
    examples = _place(layout, clouds, shared=data is not None)

    def draw(state: CloudState, picture: int) -> CloudState:
        count = layout.share(jnp.int32(counts[picture]))
        state, found = program(state, spread_keys, examples, count)
        accuracy[picture] = layout.gather(found)
        params = layout.gather(state.params)
        for kept, leaf in zip(jax.tree.leaves(snapshots), jax.tree.leaves(params), strict=True):
            kept[picture] = leaf
        return state

    state, _, cost = run_segments(
        state,
        (snapshots, accuracy),
        range(1, len(counts) + 1),
        draw,
        kept=Checkpoints(directory),
        layout=layout,
        progress=lambda picture: progress(picture / len(counts)),
        course=course,
        measured=config.pictures,
    )
    taken = layout.gather(state.step)
    outcomes = [
        _outcome(point, clouds[i], i, snapshots, accuracy, int(taken[i]), course)
        for i, point in enumerate(group)
    ]
    return [with_last_measures(outcome, cost) for outcome in outcomes]


def _place(layout: ReplicaLayout, clouds: list[Cloud], *, shared: bool) -> Any:
    """Puts training and test examples on the devices: of each replica, or one set for all."""
    own = [(cloud.train, cloud.test) for cloud in clouds]
    if shared:
        return layout.share(own[0])
    return layout.spread(jax.tree.map(lambda *leaves: jnp.stack(leaves), *own))


def _outcome(
    point: Point,
    cloud: Cloud,
    replica: int,
    snapshots: Any,
    accuracy: Float[np.ndarray, "pictures replicas"],
    taken: int,
    course: Course | None,
) -> Outcome:
    config, history, stages = point.config, [], []
    for place, step in enumerate(config.pictures):
        params = jax.tree.map(lambda leaf, place=place: leaf[place, replica], snapshots)
        weights, signs = _weights(params)
        measured = measure_directions(config, weights, signs, cloud.centres.inputs)
        start = unit_rows(stages[0][0] if stages else weights)
        measured["cosine_with_start"] = float((start * unit_rows(weights)).sum(axis=1).mean())
        row = {"step": step, "test_accuracy": accuracy[place, replica].item(), **measured}
        history.append(row if course is None else row | course.row_of(replica, step))
        stages.append((weights, signs))
    described = {"init_std": config.init_std, "seed": config.seed}
    if taken < config.pictures[-1]:
        history = [row for row in history if row["step"] <= taken]
        message = f"the loss was not finite at step {taken}; lower config.learning_rate"
        return Outcome(described, history, "failed", message)
    last = {n: v for n, v in history[-1].items() if n != "step" and not is_measure(n)}
    start = {f"start_{name}": value for name, value in history[0].items() if name in last}
    targets = cloud.test.targets
    described |= {"num_test": len(targets), "chance": best_constant_accuracy(targets)}
    weights = [stage[0] for stage in stages]
    marks = cloud.centres.inputs
    pictures = picture_rows(list(config.pictures), weights, marks)
    for row, (drawn, signs) in zip(pictures, stages, strict=True):
        row["mark_labels"] = cloud.centres.targets
        if not len(marks):
            # Nothing to be near to: the two colours are the signs of the output weights.
            row["nearest"] = (signs[np.linalg.norm(drawn, axis=1) > 0] < 0).astype(int)
    return Outcome(described | last | start, [*history, *pictures])


EXPERIMENT = Experiment(load=load, run=run, report=make_report, varying=("seed",))
