"""Learners of more images than can be stored: regression on centres, in one pass over images."""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array

from lsa_jax import kernels, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import tasks
from lsa_jax.experiments.lsa.noise_curves.tasks import TEST, TRAIN, ImageTask
from lsa_jax.experiments.lsa.streams import NoiseCurves
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.points import Point

# Images that are composed at a time.
_BATCH = 4096


def solve(
    point: Point,
    task: ImageTask,
    make_kernel: Callable[[tuple[int, ...]], Callable],
    scratch: Path,
    progress: Callable[[float], None],
) -> Outcome:
    """Fits a kernel's regression on centres; images are placed on their backgrounds batch by batch.

    The centres are drawn from the training images, each at its place there. Their backgrounds may
    have less noise: what is added to an image's features by a centre's own noise is of no use.
    Accuracy on training images is that on the first of them, as many as there are test images.
    """
    config, n = point.config, len(task.train.targets)
    settings, composed = config[config.learner], functools.partial(_composed, point, task)
    _check_centres(config, n)

    def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
        first = number * _BATCH
        found = composed(TRAIN, np.arange(first, min(first + _BATCH, n)))
        return np.asarray(found.inputs), np.asarray(found.targets)

    key = jax.random.fold_in(jax.random.key(config.seed), NoiseCurves.CENTRES)
    chosen = np.sort(jax.random.permutation(key, n)[: settings.centres])
    noise = config.noise if settings.centre_noise is None else settings.centre_noise
    test = composed(TEST, np.arange(len(task.test.targets)))
    few = composed(TRAIN, np.arange(min(n, len(test.targets))))
    checkpoint = scratch / "sums.npz"
    begun, start = checkpoint.exists(), time.monotonic()
    fit = kernels.regress_nystrom(
        make_kernel(test.inputs.shape[1:]),
        composed(TRAIN, chosen, noise=jnp.float32(noise)).inputs,
        kernels.Stream(batch, -(-n // _BATCH)),
        np.concatenate([test.inputs, few.inputs]),
        ridge=settings.ridge[0],
        memory_limit=config.kernel_memory,
        checkpoint=checkpoint,
        progress=progress,
    )
    seconds = None if begun else round(time.monotonic() - start, 3)
    predictions = np.split(fit.predictions, [len(test.targets)])
    return _outcome(fit, predictions, (test.targets, few.targets), seconds)


def _check_centres(config: ml_collections.ConfigDict, n: int) -> None:
    count = config[config.learner].centres
    if count > n:
        raise InputError(
            f"config.{config.learner}.centres is {count}; accepted: at most the {n} training images"
        )


def _composed(
    point: Point, task: ImageTask, which: int, index: np.ndarray, **others: Array
) -> Dataset:
    """Returns images of a split on their backgrounds; `others` replace what is the point's own."""
    split, replica = (task.train, task.test)[which], tasks.replica_of(point) | others
    return tasks.compose(point.config, which, split, replica, jnp.asarray(index), jnp.int32(0))


def _outcome(
    fit: kernels.NystromRegression,
    predictions: Sequence[np.ndarray],
    targets: Sequence[Array | np.ndarray],
    seconds: float | None,
) -> Outcome:
    """Returns accuracies on test images and some training images, and how the system was solved."""
    right = [
        np.asarray(training.is_correct(found, expected)) == 1
        for found, expected in zip(predictions, targets, strict=True)
    ]
    names = ("test_accuracy", "train_accuracy")
    accuracies = {name: float(own.mean()) for name, own in zip(names, right, strict=True)}
    solved = {
        "ridge": fit.ridge,
        "centres": fit.rank,
        "examples": fit.num_examples,
        "condition": fit.condition,
        "train_error": fit.train_error,
    }
    timings = {"matrix_seconds": seconds}
    kept = Outcomes(right[0])
    return Outcome(accuracies | solved, [solved | accuracies], timings=timings, outcomes=kept)
