"""Directions of a ResNet's filters: two clusters a block, and gradients that agree.

Shi, Wei and Liang (ICLR 2022), appendix E.4.1: ResNet(m) on two classes of CIFAR-10; directions of
the filters of each block before, during and after training; and cosines between the gradients of
the first steps, of the filter nearest to a cluster's centre.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from lsa_jax import parallel, training
from lsa_jax.data import images, tasks
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.data.tasks import TaskData
from lsa_jax.experiments.feature_learning.filter_clouds.report import make_report
from lsa_jax.experiments.feature_learning.networks import NUM_STAGES, last_filters, resnet18
from lsa_jax.experiments.feature_learning.pictures import picture_rows, spherical_means, unit_rows
from lsa_jax.models import Model
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, with_last_measures, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.programs import epoch_order, init_key


def load(points: list[Point], data_dir: Path | None) -> TaskData:
    """Reads two classes of images, standardised as a whole."""
    data = points[0].config.data
    task = tasks.task_view(
        images.load(data.dataset, data_dir),
        "all",
        classes=data.classes,
        num_train=data.num_train,
        num_test=data.num_test,
    )
    mean, std = task.train.inputs.mean(), task.train.inputs.std()
    train, test = (Dataset((part.inputs - mean) / std, part.targets) for part in task[:2])
    return task._replace(train=train, test=test)


def _optimizer(config: Config) -> optax.GradientTransformation:
    return training.make_optimizer(
        "momentum",
        config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )


def _run_key(config: Config) -> Array:
    return jax.random.fold_in(jax.random.key(config.seed), 0)


def _train_to(
    group: list[Point],
    model: Model,
    data: TaskData,
    epochs: int,
    directory: Path,
    progress: Progress,
) -> tuple[Any, training.History]:
    """Trains a group's networks for some epochs from the start.

    The rate is constant, so a shorter training is the beginning of a longer one.
    """
    config = group[0].config
    return training.train(
        jnp.stack([_run_key(point.config) for point in group]),
        model,
        data.train,
        training.LOSSES["softmax_cross_entropy"],
        _optimizer(config),
        epochs=epochs,
        batch_size=config.batch_size,
        evaluation=training.Evaluation(
            data.test, batch_size=config.batch_size, measuring=training.Measuring(config.measures)
        ),
        checkpoints=training.Checkpoints(directory / f"epochs_{epochs}"),
        progress=progress,
    )


def _batch(config: Config, num_examples: int, step: int) -> np.ndarray:
    """Returns the examples that training takes in a step, counted from 0."""
    per_epoch = -(-num_examples // config.batch_size)
    order = epoch_order(_run_key(config), step // per_epoch, num_examples)
    first = step % per_epoch * config.batch_size
    return np.asarray(order)[first : first + config.batch_size]


def mean_gradients(config: Config, model: Model, data: Dataset) -> list[Float[np.ndarray, "3 _ _"]]:
    """Returns mean gradients of the last filters of each block over thirds of the first steps.

    The steps are those of `_train_to`: the same start, batches and updates.
    """
    optimizer = _optimizer(config)
    loss = training.LOSSES["softmax_cross_entropy"]
    params = model.init(init_key(_run_key(config)), data.inputs.shape[1:])

    def take(params: Any, opt_state: Any, inputs: Array, targets: Array) -> tuple:
        slope = jax.grad(lambda p: jnp.mean(loss(model.apply(p, inputs), targets)))(params)
        updates, opt_state = optimizer.update(slope, opt_state, params)
        filters = [last_filters(slope, stage) for stage in range(NUM_STAGES)]
        return optax.apply_updates(params, updates), opt_state, filters

    opt_state, chunk = optimizer.init(params), config.gradient_steps // 3
    sums: list[np.ndarray] = []
    compiled = parallel.compile_function(take)
    for step in range(config.gradient_steps):
        rows = _batch(config, len(data.targets), step)
        batch = data.inputs[rows], data.targets[rows]
        params, opt_state, filters = compiled(params, opt_state, *batch)
        flat = [np.asarray(f).reshape(-1, f.shape[-1]) / chunk for f in filters]
        if not sums:
            sums = [np.zeros((3, *f.shape), f.dtype) for f in flat]
        for total, f in zip(sums, flat, strict=True):
            total[step // chunk] += f
    return sums


def gradient_cosines(gradients: Float[np.ndarray, "3 d"]) -> dict[str, float]:
    """Returns cosines of three mean gradients v1, v2, v3 with their mean v, and of pairs.

    Source: Shi, Wei and Liang (2022), table 7.
    """
    v1, v2, v3, v = unit_rows(np.concatenate([gradients, gradients.mean(axis=0, keepdims=True)]))
    pairs = {"v1_v": (v1, v), "v2_v": (v2, v), "v3_v": (v3, v)}
    pairs |= {"v1_v2": (v1, v2), "v1_v3": (v1, v3), "v2_v3": (v2, v3)}
    return {name: float(a @ b) for name, (a, b) in pairs.items()}


def nearest_clusters(
    filters: Float[np.ndarray, "f d"], share: float
) -> tuple[Float[np.ndarray, "2 d"], list[np.ndarray], dict[str, float]]:
    """Returns two clusters: the filters nearest to either centre of spherical 2-means.

    Returns:
        The centres, that is the mean directions of these filters; the filters' numbers; and the
        mean cosine of either cluster with its centre, and the cosine of the centres.

    Source: Shi, Wei and Liang (2022), figures 20 and 21, whose clusters were picked by hand.
    """
    rows = unit_rows(filters)
    found, _ = spherical_means(rows, 2)
    count = max(round(share * len(rows)), 1)
    members = [np.argsort(-(rows @ centre), kind="stable")[:count] for centre in found]
    centres = unit_rows(np.stack([rows[own].mean(axis=0) for own in members]))
    cosines = [(rows[own] @ c).mean() for own, c in zip(members, centres, strict=True)]
    names = ("first_cosine", "second_cosine", "centres_cosine")
    measures = map(float, (*cosines, centres[0] @ centres[1]))
    return centres, members, dict(zip(names, measures, strict=True))


def _measure(
    config: Config, stages: list[Any], gradients: list[Float[np.ndarray, "3 _ _"]]
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Returns a network's numbers, and the pictures of its blocks at each epoch."""
    metrics: dict[str, float] = {}
    pictures: list[dict[str, Any]] = []
    epochs = [0, *config.epochs]
    for block in range(NUM_STAGES):
        filters = [np.asarray(last_filters(params, block)) for params in stages]
        weights = [one.reshape(-1, one.shape[-1]).T for one in filters]
        centres, members, measured = nearest_clusters(weights[-1], config.near_share)
        metrics |= {f"block{block + 1}_{name}": value for name, value in measured.items()}
        # Clusters are found in filters that have learned nothing, too.
        _, _, untrained = nearest_clusters(weights[0], config.near_share)
        metrics[f"block{block + 1}_start_centres_cosine"] = untrained["centres_cosine"]
        # Turns of directions: the paper's pictures change early, and little later.
        rows = [unit_rows(w) for w in weights]
        for at in range(1, len(epochs)):
            cosine = (rows[at - 1] * rows[at]).sum(axis=1).mean()
            metrics[f"block{block + 1}_moved_{epochs[at - 1]}_{epochs[at]}"] = float(1 - cosine)
        nearest = np.full(len(weights[-1]), -1)
        for cluster, own in enumerate(members):
            nearest[own] = cluster
        for row in picture_rows(epochs, weights, centres):
            pictures.append(row | {"nearest": nearest, "block": block + 1})
        # The filter nearest to the first cluster's mean, as in table 7, in the last block.
        if block == NUM_STAGES - 1:
            own = np.argmax(rows[-1] @ centres[0])
            metrics |= gradient_cosines(gradients[block][:, :, own])
    return metrics, pictures


def run(group: list[Point], data: TaskData, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains the networks of a width together and measures their filters."""
    config = group[0].config
    model = resnet18(config.filters, 2, scale=config.init_scale)
    total, done, trained = sum(config.epochs), 0, []
    for epochs in config.epochs:

        def report(fraction: float, before: int = done, own: int = epochs) -> None:
            progress((before + fraction * own) / (total + 1))

        trained.append(_train_to(group, model, data, epochs, directory, report))
        done += epochs
    history, targets = trained[-1][1], data.test.targets
    sizes = {"num_test": len(targets), "chance": best_constant_accuracy(targets)}

    def outcome(replica: int) -> Outcome:
        config = group[replica].config
        rows = [
            {n: v[replica].item() if isinstance(v, np.ndarray) else v for n, v in row.items()}
            for row in history.rows
        ]
        if replica in history.failures:
            return Outcome({}, rows, "failed", history.failures[replica])
        start = model.init(init_key(_run_key(config)), data.train.inputs.shape[1:])
        ends = [jax.tree.map(lambda leaf: leaf[replica], params) for params, _ in trained]
        gradients = mean_gradients(config, model, data.train)
        metrics, pictures = _measure(config, [start, *ends], gradients)
        accuracy = {name: rows[-1][name] for name in ("train_accuracy", "test_accuracy")}
        kept = Outcomes(history.outcomes[replica])
        found = Outcome(sizes | accuracy | metrics, [*rows, *pictures], outcomes=kept)
        return with_last_measures(found, history.measured)

    return with_test(map(outcome, range(len(group))), data.test)


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    report_version=2,
    varying=("seed",),
    columns=lambda config: {"filters": config.filters, "seed": config.seed},
)
