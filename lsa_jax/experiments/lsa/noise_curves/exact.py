"""Learners that solve for their predictions: kernel ridge regression, of kernels that may learn."""

import functools
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from lsa_jax import kernels, processes, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import streamed, tasks
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS, LearningTask
from lsa_jax.experiments.lsa.noise_curves.tasks import TEST, TRAIN, ImageTask
from lsa_jax.experiments.lsa.streams import NoiseCurves
from lsa_jax.reporting import files
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.points import Point

# Of a run that solves by iterations, what its matrices take.
_MATRICES = 0.8


def solve(
    point: Point,
    task: ImageTask,
    make_kernel: Callable[[tuple[int, ...]], Callable],
    scratch: Path,
    progress: Callable[[float], None],
) -> Outcome:
    """Fits a kernel's ridge regression to one point's data, exactly; before it, the kernel learns.

    The kernel's matrices are computed in files, so that a run that was killed goes on with them.
    """
    config, replica, epoch = point.config, tasks.replica_of(point), jnp.int32(0)
    if config[config.learner].solver == "nystrom":
        return streamed.solve(point, task, make_kernel, scratch, progress)
    train, test = (
        tasks.compose(config, which, split, replica, jnp.arange(len(split.targets)), epoch)
        for which, split in ((TRAIN, task.train), (TEST, task.test))
    )
    kernel = make_kernel(train.inputs.shape[1:])
    if LEARNERS[config.learner].learn is None:
        return _regress(point, kernel, train, test, scratch, scratch / "train.npy", progress)
    # An update takes about the time of the matrices after the last one.
    updates = config[config.learner].updates
    share = updates / (updates + 1)
    learned = _learn(point, kernel, train, scratch / "learned", lambda f: progress(share * f))
    reported = range(updates + 1) if config[config.learner].every_update else (updates,)
    outcomes = [
        _regress(
            point,
            learned[update],
            train,
            test,
            scratch / f"update_{update}",
            # As the updates have left it, where they have.
            scratch / "learned" / f"gram_{update + 1}.npy",
            lambda f, done=done: progress(share + (1 - share) * (done + f) / len(reported)),
        )
        for done, update in enumerate(reported)
    ]
    if len(outcomes) == 1:
        return outcomes[0]
    rows = [
        {"update": update, **outcome.metrics}
        for update, outcome in zip(reported, outcomes, strict=True)
    ]
    after = {f"test_accuracy_update_{row['update']}": row["test_accuracy"] for row in rows}
    return outcomes[-1]._replace(metrics={**outcomes[-1].metrics, **after}, history=rows)


def _learn(
    point: Point,
    kernel: Callable,
    train: Dataset,
    directory: Path,
    progress: Callable[[float], None],
) -> list[Callable]:
    """Returns the kernels that a kernel becomes by learning, from itself on."""
    config = point.config
    learn = LEARNERS[config.learner].learn
    assert learn is not None, config.learner
    key = jax.random.fold_in(jax.random.key(config.seed), NoiseCurves.POINTS)
    settings = config[config.learner]
    keep = settings.every_update and settings.solver == "cholesky"
    given = LearningTask(
        key, train.inputs, train.targets, config.kernel_memory, directory, keep, progress
    )
    return learn(kernel, settings, given)


def _regress(
    point: Point,
    kernel: Callable,
    train: Dataset,
    test: Dataset,
    scratch: Path,
    matrix: Path,
    progress: Callable[[float], None],
) -> Outcome:
    """Fits the regression of one kernel; its matrix of training images is kept at `matrix`."""
    config, settings = point.config, point.config[point.config.learner]
    choice = _chosen(settings, train, scratch)
    iterative = choice.solver != "cholesky"
    both = _MATRICES if iterative else 1.0
    # The symmetric matrix takes half the work of its size.
    share = both * len(train.inputs) / (len(train.inputs) + 2 * len(test.inputs))
    # Several processes then keep a part each of what a file system of each has room for.
    gram = functools.partial(
        kernels.gram, kernel, memory_limit=config.kernel_memory, sharded=iterative
    )
    matrix = matrix.with_stem(matrix.stem + "_packed") if iterative else matrix
    begun, start = any(matrix.parent.glob(f"{matrix.stem}.*npy")), time.monotonic()
    gram_train = gram(
        train.inputs,
        path=matrix,
        packed=iterative,
        progress=lambda f: progress(share * f),
    )
    seconds = None if begun else round(time.monotonic() - start, 3)
    gram_test = gram(
        test.inputs,
        train.inputs,
        path=scratch / "test.npy",
        progress=lambda f: progress(share + (both - share) * f),
    )
    targets = np.asarray(train.targets)
    if iterative:
        factor = scratch / "factor.npy" if choice.solver == "cholesky_on_disk" else None
        matrices = gram_train, targets, gram_test
        outputs, solved = _iterate(*matrices, settings, scratch / "solution.npz", factor, progress)
    else:
        key = jax.random.fold_in(jax.random.key(config.seed), NoiseCurves.RIDGE)
        ridge = kernels.select_ridge(key, gram_train, targets, settings.ridge)
        rows = np.concatenate([gram_test, gram_train])
        predictions = kernels.regress(gram_train, targets, rows, ridge=ridge).predictions
        outputs, solved = np.split(predictions, [len(gram_test)]), {"ridge": ridge}
    right = [
        np.asarray(training.is_correct(predictions, split.targets)) == 1
        for predictions, split in zip(outputs, (test, train), strict=True)
    ]
    names = ("test_accuracy", "train_accuracy")
    accuracies = {name: float(own.mean()) for name, own in zip(names, right, strict=True)}
    if choice.reason:
        solved |= {"solver": choice.solver, "solver_reason": choice.reason}
    timings = {"matrix_seconds": seconds}
    kept = Outcomes(right[0])
    return Outcome(accuracies | solved, [solved | accuracies], timings=timings, outcomes=kept)


def _chosen(settings: ml_collections.ConfigDict, train: Dataset, scratch: Path) -> kernels.Choice:
    """Returns the solver, with the reason where it was left to choose; the same after a kill."""
    if settings.solver != "auto":
        return kernels.Choice(settings.solver, "")
    kept = scratch / "solver.json"
    # Several processes would share the matrix, of which one alone can make a factor.
    disk = scratch if processes.everyone().size == 1 else None

    def decide() -> kernels.Choice:
        if kept.exists():
            remedy = "remove it to have the solver chosen again"
            try:
                return kernels.Choice(**files.read_object(kept, remedy))
            except TypeError:
                raise InputError(f"{kept} is damaged; {remedy}") from None
        if len(settings.ridge) > 1:
            choice = kernels.Choice("cholesky", "several ridges, of which held-out examples choose")
        else:
            scratch.mkdir(parents=True, exist_ok=True)
            choice = kernels.choose_solver(*train.targets.shape, disk=disk)
        files.write_json(kept, choice._asdict())
        return choice

    return processes.everyone().from_first(decide)


def _iterate(
    gram_train: np.ndarray | kernels.PackedMatrix,
    targets: np.ndarray,
    gram_test: np.ndarray | kernels.ShardedRows,
    settings: ml_collections.ConfigDict,
    checkpoint: Path,
    factor: Path | None,
    progress: Callable[[float], None],
) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, float]]:
    """Returns the predictions for test and training examples, and how the system was solved."""

    def report(iterations: int, residual: float) -> None:
        del iterations  # the residual falls about evenly on a logarithmic scale
        done = np.log(np.clip(residual, settings.tolerance, 1.0)) / np.log(settings.tolerance)
        progress(_MATRICES + (1 - _MATRICES) * float(done))

    fit = kernels.regress_cg(
        gram_train,
        targets,
        gram_test,
        ridge=settings.ridge[0],
        tolerance=settings.tolerance,
        factor=factor,
        checkpoint=checkpoint,
        progress=report,
    )
    # K w = Y - y0 - lambda w, as far as the system is solved: no other pass over the matrix.
    shift = fit.ridge * float(np.mean(gram_train.diagonal(), dtype=float))
    solved = {
        "ridge": fit.ridge,
        "iterations": fit.iterations,
        "residual": fit.residual,
        "kernel_gigabytes": (gram_train.nbytes + gram_test.nbytes) / 1e9,
    }
    return (fit.predictions, targets - shift * fit.weights), solved
