"""How accuracy falls as the background gets noisier: a network, its finite NTK, its infinite NTK.

Karp et al. (NeurIPS 2021), section 6. Learners are compared on the same data: for one seed, the
images, placements and backgrounds are functions of (seed, split, example), whoever learns.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from lsa_jax import kernels, models, parallel, training
from lsa_jax.experiments.lsa.noise_curves import tasks
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS, is_exact
from lsa_jax.experiments.lsa.noise_curves.report import make_report
from lsa_jax.experiments.lsa.noise_curves.tasks import TEST, TRAIN, ImageTask, load
from lsa_jax.experiments.lsa.streams import NoiseCurves
from lsa_jax.models.model import Model
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome
from lsa_jax.sweep.points import Point, group_points, split_groups


def groups(points: list[Point]) -> list[list[Point]]:
    """Puts trained points together that differ only in noise and seed; all others run alone."""

    def varying(config: ml_collections.ConfigDict) -> tuple[str, ...]:
        alone = is_exact(config) or config.parallel != "replicas"
        return () if alone else ("noise", "seed")

    return split_groups(group_points(points, varying))


def build_model(config: ml_collections.ConfigDict, learner: str, num_classes: int) -> Model:
    """Returns the network that all learners share, in the learner's parameterisation.

    Equal settings give the same functions, so that what jax compiled for them is found again.
    """
    model = config.model
    own = {
        "cnn": {"channels": model.channels},
        "mlp": {"widths": model.widths},
        "wide_resnet": {
            "depth": model.depth,
            "norm": model.norm,
            "batch_axis": parallel.BATCH_AXIS if config.parallel == "data" else None,
        },
    }
    return _build(
        model.name,
        width_factor=config.width_factor,
        num_classes=num_classes,
        parameterization=config[learner].parameterization,
        dtype=model.dtype,
        w_std=model.w_std,
        **own[model.name],
    )


@functools.cache
def _build(name: str, **settings: Any) -> Model:
    return models.MODELS[name](**settings)


def train_group(
    group: list[Point],
    task: ImageTask,
    model: Model,
    directory: Path,
    progress: Callable[[float], None],
    *,
    loss: Callable | None = None,
    metrics: dict[str, Callable] | None = None,
) -> training.History:
    """Trains a model at every point of a group at once, as the learner's settings say.

    Args:
        group: points that differ in noise and seed alone.
        task: both splits.
        model: the learner's network.
        directory: where checkpoints go.
        progress: called with the fraction done.
        loss: `(outputs, targets) -> [n]`; None takes the settings'.
        metrics: as `training.train` takes them.
    """
    config = group[0].config
    settings = config[config.learner]
    steps_per_epoch = -(-len(task.train.targets) // settings.batch_size)
    schedule = training.make_schedule(
        settings.schedule,
        settings.learning_rate,
        epochs=settings.epochs,
        steps_per_epoch=steps_per_epoch,
        decay_epochs=settings.decay_epochs,
        decay_factor=settings.decay_factor,
    )
    keys = [
        jax.random.fold_in(jax.random.key(point.config.seed), NoiseCurves.RUN) for point in group
    ]
    _, history = training.train(
        jnp.stack(keys),
        model,
        tasks.source(config, TRAIN, task.train),
        loss or training.LOSSES[settings.loss],
        training.make_optimizer(
            settings.optimizer,
            schedule,
            momentum=settings.momentum,
            # The optimiser's penalty has the factor 1/2.
            weight_decay=2 * settings.penalty_factor * settings.weight_decay,
        ),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        test=tasks.source(config, TEST, task.test),
        metrics=metrics,
        replicas=jax.tree.map(lambda *values: jnp.stack(values), *map(tasks.replica_of, group)),
        frozen=LEARNERS[config.learner].frozen,
        eval_every=settings.eval_every,
        layout=parallel.BatchLayout(settings.batch_size) if config.parallel == "data" else None,
        checkpoint_dir=directory,
        checkpoint_every=settings.checkpoint_every,
        progress=progress,
    )
    return history


def _train(
    group: list[Point], task: ImageTask, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Trains the network, or its linearisation, of every point of a group at once."""
    config = group[0].config
    model = build_model(config, config.learner, task.train.targets.shape[1])
    model = LEARNERS[config.learner].model(model)
    history = train_group(group, task, model, directory, progress)
    return [training_outcome(history, config, replica) for replica in range(len(group))]


def training_outcome(
    history: training.History, config: ml_collections.ConfigDict, replica: int
) -> Outcome:
    """Returns what came out of one replica: its last losses, metrics, and the group's pace."""
    rows = [
        {name: v[replica].item() if isinstance(v, np.ndarray) else v for name, v in row.items()}
        for row in history.rows
    ]
    pace = history.throughput
    timings = {
        "images_per_second": pace and round(pace.examples_per_second, 1),
        "peak_fraction": pace and pace.peak_fraction(config.model.dtype),
    }
    if replica in history.failures:
        return Outcome({}, rows, "failed", history.failures[replica], timings)
    last = {n: v for n, v in sorted(rows[-1].items()) if n.startswith(("test_", "train_"))}
    return Outcome(last, rows, timings=timings)


def _solve(
    point: Point, task: ImageTask, directory: Path, progress: Callable[[float], None]
) -> Outcome:
    """Fits a kernel's ridge regression to one point's data, exactly.

    The kernel's matrices are computed in files, so that a run that was killed goes on with them.
    """
    config, replica, epoch = point.config, tasks.replica_of(point), jnp.int32(0)
    train, test = (
        tasks.compose(config, which, split, replica, jnp.arange(len(split.targets)), epoch)
        for which, split in ((TRAIN, task.train), (TEST, task.test))
    )
    model = build_model(config, config.learner, task.train.targets.shape[1])
    run_key = jax.random.fold_in(jax.random.key(config.seed), NoiseCurves.RUN)
    make_kernel = LEARNERS[config.learner].kernel
    assert make_kernel is not None, config.learner
    kernel = make_kernel(training.init_key(run_key), model, train.inputs.shape[1:])
    # The symmetric matrix takes half the work of its size.
    share = len(train.inputs) / (len(train.inputs) + 2 * len(test.inputs))
    gram = functools.partial(kernels.gram, kernel, memory_limit=config.kernel_memory)
    scratch = directory / SCRATCH
    gram_train = gram(
        train.inputs, path=scratch / "train.npy", progress=lambda f: progress(share * f)
    )
    gram_test = gram(
        test.inputs,
        train.inputs,
        path=scratch / "test.npy",
        progress=lambda f: progress(share + (1 - share) * f),
    )
    key = jax.random.fold_in(jax.random.key(config.seed), NoiseCurves.RIDGE)
    targets = np.asarray(train.targets)
    ridge = kernels.select_ridge(key, gram_train, targets, config[config.learner].ridge)
    both = kernels.regress(
        gram_train, targets, np.concatenate([gram_test, gram_train]), ridge=ridge
    ).predictions
    accuracies = {
        name: float(np.mean(training.is_correct(outputs, split.targets)))
        for name, outputs, split in (
            ("test_accuracy", both[: len(gram_test)], test),
            ("train_accuracy", both[len(gram_test) :], train),
        )
    }
    return Outcome({**accuracies, "ridge": ridge}, [{"ridge": ridge, **accuracies}])


def run(
    group: list[Point],
    data: dict[str, ImageTask],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Trains a group's points as replicas, or solves for a single point exactly."""
    task = tasks.task_of(group[0], data)
    if is_exact(group[0].config):
        outcomes = [_solve(group[0], task, directory, progress)]
    else:
        outcomes = _train(group, task, directory, progress)
    return [
        outcome._replace(metrics=describe(point.config) | outcome.metrics)
        for point, outcome in zip(group, outcomes, strict=True)
    ]


def describe(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns what a point is, for its row of results, also where it was not swept."""
    own = ("learner", "width_factor", "noise", "seed")
    of_data = ("placement", "image_size", "background_size")
    return {name: config[name] for name in own} | {name: config.data[name] for name in of_data}


EXPERIMENT = Experiment(load, groups, run, make_report)
