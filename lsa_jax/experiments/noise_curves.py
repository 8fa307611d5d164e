"""How accuracy falls as the background gets noisier: a network, its finite NTK, its infinite NTK.

Karp et al. (NeurIPS 2021), section 6. Learners are compared on the same data: for one seed, the
images, placements and backgrounds are functions of (seed, split, example), whoever learns.
"""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array, Float

from lsa_jax import kernels, models, parallel, training
from lsa_jax.data import backgrounds, images, tasks
from lsa_jax.data.backgrounds import Composition
from lsa_jax.data.dataset import Dataset
from lsa_jax.data.tasks import TaskData
from lsa_jax.errors import InputError
from lsa_jax.experiments.experiment import Experiment, Outcome
from lsa_jax.experiments.noise_curves_report import make_report
from lsa_jax.models.model import Model
from lsa_jax.settings.points import Point

# Streams of a seed's key, split by meaning, and of the data's key.
_RUN, _DATA, _RIDGE = 0, 1, 2
_TRAIN, _TEST = 0, 1


class Split(NamedTuple):
    """Images before they are placed on backgrounds.

    Attributes:
        images: [n, image_size, image_size, channels].
        targets: [n, classes], one-hot.
        pool: photographs or distractors to draw backgrounds from; None for other backgrounds.
    """

    images: Float[np.ndarray, "n a a c"]
    targets: Float[np.ndarray, "n classes"]
    pool: Float[np.ndarray, "m h w c"] | None


class ImageTask(NamedTuple):
    """Both splits of one task."""

    train: Split
    test: Split


def _data_key(config: ml_collections.ConfigDict) -> str:
    return json.dumps(config.data.to_dict(), sort_keys=True)


def _pools(
    config: ml_collections.ConfigDict, task: TaskData, data_dir: Path | None
) -> tuple[Array | None, Array | None]:
    """Returns what backgrounds are drawn from, for training and for test: disjoint pools."""
    data = config.data
    if data.background == "distractors":
        return (
            backgrounds.resize(task.distractors_train, data.image_size),
            backgrounds.resize(task.distractors_test, data.image_size),
        )
    if data.background != "photographs":
        return None, None
    if data_dir is None:
        raise InputError(
            f"config.data.photographs is {data.photographs!r}, a folder below --data_dir, "
            "which is missing; accepted: --data_dir=DIR or LSA_DATA_DIR"
        )
    pictures = images.photographs(data_dir / data.photographs, data.background_size)
    order = np.random.default_rng(data.subset_seed).permutation(len(pictures))
    train, test = np.array_split(order, 2)
    return pictures[train], pictures[test]


def _load_task(config: ml_collections.ConfigDict, data_dir: Path | None) -> ImageTask:
    data = config.data
    task = tasks.task_view(
        images.load(data.folder if data.dataset == "folder" else data.dataset, data_dir),
        data.task,
        classes=data.classes,
        num_train=data.num_train,
        num_test=data.num_test,
        subset_seed=data.subset_seed,
    )

    def split(dataset: Dataset, copies: int, pool: Array | None) -> Split:
        small = backgrounds.resize(dataset.inputs, data.image_size)
        return Split(np.tile(small, (copies, 1, 1, 1)), np.tile(dataset.targets, (copies, 1)), pool)

    pool_train, pool_test = _pools(config, task, data_dir)
    return ImageTask(
        split(task.train, data.copies, pool_train), split(task.test, data.test_copies, pool_test)
    )


def load(points: list[Point], data_dir: Path | None) -> dict[str, ImageTask]:
    """Reads the images that the points need, once for each way of preparing them."""
    tasks_by_key: dict[str, ImageTask] = {}
    for point in points:
        key = _data_key(point.config)
        if key not in tasks_by_key:
            tasks_by_key[key] = _load_task(point.config, data_dir)
    return tasks_by_key


def _is_exact(config: ml_collections.ConfigDict) -> bool:
    """Whether the learner solves for its predictions rather than train for them."""
    return config.learner == "ntk_infinite" or (
        config.learner == "ntk_finite" and config.ntk_finite.method == "regression"
    )


def groups(points: list[Point]) -> list[list[Point]]:
    """Puts trained points together that differ only in noise and seed; all others run alone."""
    by_program: dict[str, list[Point]] = {}
    for point in points:
        shared = point.config.to_dict()
        if not _is_exact(point.config) and point.config.parallel == "replicas":
            del shared["noise"], shared["seed"]
        by_program.setdefault(json.dumps(shared, sort_keys=True), []).append(point)
    return [
        group[start : start + group[0].config.max_replicas]
        for group in by_program.values()
        for start in range(0, len(group), group[0].config.max_replicas)
    ]


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
        **own[model.name],
    )


@functools.cache
def _build(name: str, **settings: Any) -> Model:
    return models.MODELS[name](**settings)


def _composition(config: ml_collections.ConfigDict, *, fresh: bool) -> Composition:
    data = config.data
    return Composition(
        image_size=data.image_size,
        background_size=data.background_size,
        placement=data.placement,
        background=data.background,
        fresh=fresh,
    )


def _compose(
    config: ml_collections.ConfigDict, which: int, split: Split, replica: dict, index: Array, epoch
) -> Dataset:
    """Places examples on their backgrounds: a function of (seed, split, index, epoch) alone."""
    composition = _composition(config, fresh=config.data.fresh_backgrounds and which == _TRAIN)
    key = jax.random.fold_in(replica["data_key"], which)
    composed = backgrounds.compose(
        composition,
        key,
        split.images[index],
        index,
        epoch,
        noise=replica["noise"],
        image_noise=config.data.image_noise,
        pool=split.pool,
    )
    return Dataset(composed, split.targets[index])


def _replica(point: Point) -> dict[str, Any]:
    """What varies between the points of a group."""
    key = jax.random.fold_in(jax.random.key(point.config.seed), _DATA)
    return {"data_key": key, "noise": jnp.float32(point.config.noise)}


def _source(config: ml_collections.ConfigDict, which: int, split: Split) -> training.Source:
    return training.Source(split, len(split.targets), functools.partial(_compose, config, which))


def linearized_model(model: Model) -> Model:
    """Returns the network linearised at its own initialisation, as a model to be trained.

    Its parameters are `initial` (to be frozen) and `weights`; at the start it computes what the
    network computes.
    """

    def init(key: Array, input_shape: tuple[int, ...]) -> dict[str, Any]:
        initial = model.init(key, input_shape)
        return {"initial": initial, "weights": initial}

    def apply(params: dict[str, Any], inputs: Array) -> Array:
        return kernels.linearize(model.apply, params["initial"])(params["weights"], inputs)

    return Model(init, apply, None)


def _train(
    group: list[Point], task: ImageTask, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Trains the network, or its linearisation, of every point of a group at once."""
    config = group[0].config
    settings = config[config.learner]
    model = build_model(config, config.learner, task.train.targets.shape[1])
    linear = config.learner == "ntk_finite"
    steps_per_epoch = -(-len(task.train.targets) // settings.batch_size)
    schedule = training.make_schedule(
        settings.schedule,
        settings.learning_rate,
        epochs=settings.epochs,
        steps_per_epoch=steps_per_epoch,
        decay_epochs=settings.decay_epochs,
        decay_factor=settings.decay_factor,
    )
    keys = [jax.random.fold_in(jax.random.key(point.config.seed), _RUN) for point in group]
    _, history = training.train(
        jnp.stack(keys),
        linearized_model(model) if linear else model,
        _source(config, _TRAIN, task.train),
        training.LOSSES[settings.loss],
        training.make_optimizer(
            settings.optimizer,
            schedule,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        ),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        test=_source(config, _TEST, task.test),
        replicas=jax.tree.map(lambda *values: jnp.stack(values), *map(_replica, group)),
        frozen=("initial",) if linear else (),
        eval_every=settings.eval_every,
        layout=parallel.BatchLayout(settings.batch_size) if config.parallel == "data" else None,
        checkpoint_dir=directory,
        checkpoint_every=settings.checkpoint_every,
        progress=progress,
    )
    return [_training_outcome(history, replica) for replica in range(len(group))]


def _training_outcome(history: training.History, replica: int) -> Outcome:
    rows = [
        {name: v[replica].item() if isinstance(v, np.ndarray) else v for name, v in row.items()}
        for row in history.rows
    ]
    if replica in history.failures:
        return Outcome({}, rows, "failed", history.failures[replica])
    wanted = ("test_accuracy", "train_accuracy", "test_loss", "train_loss")
    return Outcome({name: rows[-1][name] for name in wanted}, rows)


def _kernel(config: ml_collections.ConfigDict, model: Model, input_shape: tuple[int, ...]):
    """Returns the learner's kernel: at infinite width, or of the network that would be trained."""
    if config.learner == "ntk_infinite":
        return model.kernel
    key = jax.random.fold_in(jax.random.key(config.seed), _RUN)
    return functools.partial(
        kernels.finite_ntk, model.apply, model.init(training.init_key(key), input_shape)
    )


def _solve(point: Point, task: ImageTask, progress: Callable[[float], None]) -> Outcome:
    """Fits a kernel's ridge regression to one point's data, exactly."""
    config, start = point.config, jnp.int32(0)
    train, test = (
        jax.jit(functools.partial(_compose, config, which))(
            split, _replica(point), jnp.arange(len(split.targets)), start
        )
        for which, split in ((_TRAIN, task.train), (_TEST, task.test))
    )
    model = build_model(config, config.learner, task.train.targets.shape[1])
    kernel = _kernel(config, model, train.inputs.shape[1:])
    # The symmetric matrix takes half the work of its size.
    share = len(train.inputs) / (len(train.inputs) + 2 * len(test.inputs))
    gram = functools.partial(kernels.gram, kernel, memory_limit=config.kernel_memory)
    gram_train = gram(train.inputs, progress=lambda f: progress(share * f))
    gram_test = gram(
        test.inputs, train.inputs, progress=lambda f: progress(share + (1 - share) * f)
    )
    key = jax.random.fold_in(jax.random.key(config.seed), _RIDGE)
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
    task = data[_data_key(group[0].config)]
    if _is_exact(group[0].config):
        outcomes = [_solve(group[0], task, progress)]
    else:
        outcomes = _train(group, task, directory, progress)
    # What a point is, also where it was not swept.
    names = ("learner", "width_factor", "noise", "seed")
    return [
        outcome._replace(metrics={n: point.config[n] for n in names} | outcome.metrics)
        for point, outcome in zip(group, outcomes, strict=True)
    ]


EXPERIMENT = Experiment(load, groups, run, make_report)
