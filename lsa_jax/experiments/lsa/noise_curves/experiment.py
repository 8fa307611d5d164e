"""How accuracy falls as the background gets noisier: a network, its finite NTK, its infinite NTK.

Karp et al. (NeurIPS 2021), section 6. Learners are compared on the same data: for one seed, the
images, placements and backgrounds are functions of (seed, split, example) for every learner.
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from lsa_jax import backend, parallel, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.diagnosis import runs
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import exact, families, tasks
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS, Trained, is_exact, kernel_at
from lsa_jax.experiments.lsa.noise_curves.report import make_report
from lsa_jax.experiments.lsa.noise_curves.settings import is_normalised
from lsa_jax.experiments.lsa.noise_curves.tasks import TEST, TRAIN, ImageTask, NoiseCurves
from lsa_jax.models.model import Model, state_names
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, Progress, outcome_of, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.programs import init_key, split

# Losses that a constant added to all outputs of an example leaves as they are.
_CROSS_ENTROPIES = ("softmax_cross_entropy", "class_mean_cross_entropy")


def load(points: list[Point], data_dir: Path | None) -> dict[str, ImageTask]:
    """Reads the images of the points; checks networks of FILE.py:NAME and the sharing of batches.

    Raises:
        InputError: data are missing or damaged, a batch cannot be dealt out over the devices, or a
            network of the user's own does not fit.
    """
    for point in map(_leader, points):
        if point.config.parallel == "data" and not is_exact(point.config):
            parallel.BatchLayout(point.config[point.config.learner].batch_size)
    data = tasks.load(points, data_dir)
    for point in points:
        if families.is_own(point.config.model.name):
            _check_own(point, tasks.task_of(point, data))
    return data


def _check_own(point: Point, task: ImageTask) -> None:
    """Raises InputError unless a network of the user's own fits the images and the learner."""
    config, classes = point.config, task.train.targets.shape[1]
    model = build_model(config, config.learner, classes)
    name, image = f"config.model.name is {config.model.name!r}", tasks.input_shape(config, task)
    params = jax.eval_shape(lambda key: model.init(key, image), jax.random.key(0))
    form = jax.ShapeDtypeStruct((1, *image), jnp.float32)
    found = jax.eval_shape(model.apply, params, form).shape
    if found != (1, classes):
        raise InputError(
            f"{name}, with outputs {found} for an image {image}; accepted: (1, {classes}), one "
            "output for each class"
        )
    if config.learner in ("ntk_infinite", "rfm") and not model.kernel:
        others = tuple(n for n in config.sweep.learner if n not in ("ntk_infinite", "rfm"))
        raise InputError(
            f"{name}, which has no kernel at infinite width; accepted: a network of "
            f'models.network, or --config.sweep.learner="{others}"'
        )


def varying(config: Config) -> tuple[str, ...]:
    """Returns the fields in which points of a group may differ: none of kernels, which run alone.

    A learner that follows a trained network is in its group, so that it is trained once.
    """
    if is_exact(config):
        return ()
    together = () if config.parallel != "replicas" else ("noise", "seed")
    is_leader = config.learner in {learner.follows for learner in LEARNERS.values()}
    return (*together, "learner") if is_leader or _follows(config) else together


def arrange(group: list[Point]) -> list[Point]:
    """Puts each learner that follows a trained network right behind it."""
    first: dict[str, int] = {}
    for place, point in enumerate(group):
        first.setdefault(_leader(point).config.to_json(), place)
    return sorted(group, key=lambda point: first[_leader(point).config.to_json()])


def _follows(config: Config) -> bool:
    return LEARNERS[config.learner].follows is not None


def _leader(point: Point) -> Point:
    """Returns the point whose trained parameters a point takes: itself for most learners."""
    if not _follows(point.config):
        return point
    config = point.config.copy_and_resolve_references()
    with config.unlocked():
        config.learner = LEARNERS[point.config.learner].follows
    return point._replace(config=config.lock())


def build_model(config: Config, learner: str, num_classes: int) -> Model:
    """Returns the network that all learners share, in the learner's parameterisation.

    Equal settings give the same functions, for which jax compiles once.
    """
    if families.is_own(config.model.name):
        return families.own_model(config.model.name)
    model = config.model
    taken = inspect.signature(families.function(model.name)).parameters
    own = {field: model[field] for field in model if field in {*taken, "dtype", "w_std", "b_std"}}
    if "batch_axis" in taken:
        own["batch_axis"] = parallel.BATCH_AXIS if config.parallel == "data" else None
    return _build(
        model.name,
        width_factor=config.width_factor,
        num_classes=num_classes,
        parameterization=config[learner].parameterization,
        **own,
    )


@functools.cache
def _build(name: str, **settings: Any) -> Model:
    return families.function(name)(**settings)


def make_optimizer(
    settings: Config, steps_per_epoch: int, trained: Trained, input_shape: tuple[int, ...]
) -> optax.GradientTransformation:
    """Returns the optimiser of a learner's settings, with the rates of its parameterisation."""
    factors = trained.model.rate_factors
    rates = factors and split(factors(input_shape, settings.optimizer), trained.frozen)[0]
    names = ("epochs", "decay_epochs", "decay_factor", "warmup_epochs")
    course = {name: settings[name] for name in names} | {"steps_per_epoch": steps_per_epoch}
    schedule = training.make_schedule(settings.schedule, settings.learning_rate, **course)
    return training.make_optimizer(
        settings.optimizer,
        schedule,
        momentum=settings.momentum,
        # The optimiser's penalty has the factor 1/2.
        weight_decay=2 * settings.penalty_factor * settings.weight_decay,
        rate_factors=rates,
    )


def _run_key(point: Point) -> Array:
    return jax.random.fold_in(jax.random.key(point.config.seed), NoiseCurves.RUN)


def train_group(
    group: list[Point],
    task: ImageTask,
    trained: Trained,
    directory: Path,
    progress: Progress,
    *,
    loss: Callable | None = None,
    metrics: dict[str, Callable] | None = None,
    measuring: training.Measuring | None = None,
    start: bool = False,
) -> tuple[Any, training.History]:
    """Trains a model at every point of a group at once, by the learner's settings.

    Points differ in noise and seed alone. The loss is `(outputs, targets) -> [n]`, None means the
    settings'; `metrics`, `measuring` and `start` are those of `training.Evaluation`.

    Returns the trained parameters and the course of training, with an axis of points.
    """
    config = group[0].config
    settings = config[config.learner]
    steps_per_epoch = -(-len(task.train.targets) // settings.batch_size)
    return training.train(
        jnp.stack(list(map(_run_key, group))),
        trained.model,
        tasks.source(config, TRAIN, task.train),
        loss or training.LOSSES[settings.loss],
        make_optimizer(settings, steps_per_epoch, trained, tasks.input_shape(config, task)),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        evaluation=training.Evaluation(
            tasks.source(config, TEST, task.test),
            metrics,
            settings.eval_every,
            measuring=measuring or training.Measuring(),
            start=start,
        ),
        replicas=jax.tree.map(lambda *values: jnp.stack(values), *map(tasks.replica_of, group)),
        frozen=trained.frozen,
        layout=parallel.layout_of(1, settings.batch_size) if config.parallel == "data" else None,
        checkpoints=training.Checkpoints(directory, settings.checkpoint_every),
        progress=progress,
    )


def measuring(config: Config, model: Model, trained: Trained) -> training.Measuring:
    """Returns the measures of the settings, of a network however it is trained."""
    names, examples = config.measures, config.measured_examples
    return training.Measuring(names, examples, model.apply, network=trained.network)


def _train(
    group: list[Point], task: ImageTask, directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains the network, or its linearisation, of every point of a group at once.

    Then it solves for the points that follow it, each with the kernel of its own trained network.
    """
    leaders = {leader.config.to_json(): leader for leader in map(_leader, group)}
    points, places = list(leaders.values()), list(leaders)
    config = points[0].config
    model = build_model(config, config.learner, task.train.targets.shape[1])
    trained = LEARNERS[config.learner].trained(model, config[config.learner])
    followers = sum(_follows(point.config) for point in group)
    share = len(points) / (len(points) + followers)
    params, history = train_group(
        points,
        task,
        trained,
        directory,
        lambda fraction: progress(share * fraction),
        # A linearisation's kernel stays as it is.
        measuring=measuring(config, model, trained) if config.learner == "network" else None,
    )
    outcomes, done = [], 0
    for point in group:
        replica = places.index(_leader(point).config.to_json())
        outcome = training_outcome(history, config, replica)
        own = jax.tree.map(lambda leaf, replica=replica: leaf[replica], params)
        if _follows(point.config) and outcome.status == "ok":
            network = functools.partial(kernel_at, trained.network(own), model)
            scratch = directory / SCRATCH / point.id
            outcome = exact.solve(point, task, network, scratch, lambda f: None)
            done += 1
            progress(share + (1 - share) * done / followers)
        elif outcome.status == "ok":
            metrics = outcome.metrics | _linearization(point, task, trained, own)
            outcome = outcome._replace(metrics=metrics)
        outcomes.append(outcome)
    return outcomes


def _linearization(
    point: Point, task: ImageTask, trained: Trained, params: Any
) -> dict[str, float | str]:
    """Returns c of a trained network, and the names of its state, if it has any.

    A linearised network has no c; nor has one with batch normalisation over the batch.
    """
    config = point.config
    if config.learner != "network" or is_normalised(config) or backend.dry_run() is not None:
        return {}
    start = trained.model.init(init_key(_run_key(point)), tasks.input_shape(config, task))
    inputs = tasks.composed(point, task, TEST, np.arange(len(task.test.targets))).inputs
    centred = config.network.loss in _CROSS_ENTROPIES and task.test.targets.shape[1] > 1
    given = trained.model, runs.Pair(start, params), np.asarray(inputs)
    found = {"linearization_error": runs.linearization_error(*given, centred=centred)}
    names = state_names(trained.model, start, inputs[:1])
    return found | ({"state": ", ".join(names)} if names else {})


def training_outcome(history: training.History, config: Config, replica: int) -> Outcome:
    """Returns one replica's outcome: its last losses and metrics, and the group's pace."""
    pace, outcome = history.throughput, outcome_of(history, replica)
    timings = {
        "images_per_second": pace and round(pace.examples_per_second, 1),
        "peak_fraction": pace and pace.peak_fraction(config.model.dtype),
    }
    return outcome._replace(timings=timings | outcome.timings)


def run(
    group: list[Point], data: dict[str, ImageTask], directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains a group's points as replicas, or solves for a single point exactly."""
    config, task = group[0].config, tasks.task_of(group[0], data)
    if is_exact(config):
        model = build_model(config, config.learner, task.train.targets.shape[1])
        key, kernel = init_key(_run_key(group[0])), LEARNERS[config.learner].kernel
        make_kernel = functools.partial(kernel, key, model)
        outcomes = [exact.solve(group[0], task, make_kernel, directory / SCRATCH, progress)]
    else:
        outcomes = _train(group, task, directory, progress)
    # An image counts once, on however many backgrounds it is; stars differ in these alone.
    of_test = task.test.targets if config.data.dataset == "stars" else task.test.images
    sizes = {
        "num_train": len(task.train.images),
        "num_test": len(of_test),
        "num_classes": task.test.targets.shape[1],
        "chance": best_constant_accuracy(task.test.targets),
    }
    outcomes = [outcome._replace(metrics=sizes | outcome.metrics) for outcome in outcomes]
    return with_test(outcomes, (task.test.images, task.test.targets))


def columns(config: Config) -> dict[str, Any]:
    """Returns the fields that results have also where they were not swept."""
    own = ("learner", "width_factor", "noise", "seed")
    of_data = ("placement", "image_size", "background_size")
    return {name: config[name] for name in own} | {name: config.data[name] for name in of_data}


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    # Images of a test set are the same for all seeds; stars are drawn for each seed.
    fresh=lambda config: config.data.dataset == "stars",
    varying=varying,
    arrange=arrange,
    in_parts=True,
    columns=columns,
)
