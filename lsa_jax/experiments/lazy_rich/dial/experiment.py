"""From lazy to rich: a network on noisy digits, by its output scale and by its width.

Two dials turn a network into its linearisation. The output scale alpha trains alpha (f - f_0)
(`models.scaled`): large is lazy. The width does in the NTK parameterisation, and does not in muP.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np

from lsa_jax import kernels, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.dial.report import make_report
from lsa_jax.experiments.lazy_rich.digits import TEST, TRAIN, DigitsTask, load
from lsa_jax.reporting.courses import is_measure
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, with_test
from lsa_jax.sweep.points import Point


def rate_of(config: ml_collections.ConfigDict) -> float:
    """Returns a point's learning rate.

    The speed at which outputs move does not depend on an output scale from 1 up. Below 1 the loss
    curves as 1 / alpha, so the rate falls with alpha. In the standard parameterisation the kernel
    grows with the width, so the rate falls with it; in the other two it stays.
    """
    rate = config.rates[config.parameterization] * min(1.0, config.output_scale)
    return rate / config.width_factor if config.parameterization == "standard" else rate


def _solve(config: ml_collections.ConfigDict, task: DigitsTask, scratch: Path) -> Outcome:
    """Fits the exact regression with the finite NTK of the network at its start."""
    model = digits.build(config)
    train, test = (
        digits.whole(config, which, split)
        for which, split in ((TRAIN, task.train), (TEST, task.test))
    )
    kernel = kernels.finite_kernel(model.apply, digits.initial(config, model, task))
    gram = functools.partial(kernels.gram, kernel, memory_limit=config.kernel_memory)
    scratch.mkdir(parents=True, exist_ok=True)
    gram_train = gram(train.inputs, path=scratch / "train.npy")
    gram_test = gram(test.inputs, train.inputs, path=scratch / "test.npy")
    fit = kernels.regress(gram_train, train.targets, gram_test, ridge=config.ridge)
    right = np.asarray(training.is_correct(fit.predictions, test.targets)) == 1
    return Outcome({"test_accuracy": float(right.mean())}, [], outcomes=Outcomes(right))


def with_means(metrics: dict[str, Any]) -> dict[str, Any]:
    """Returns metrics with the mean over layers of each measure that has a number a layer."""
    of_layers: dict[str, list[float]] = {}
    for name, value in metrics.items():
        measure, _, layer = name.partition("/")
        if layer and is_measure(name):
            of_layers.setdefault(measure, []).append(value)
    return metrics | {name: sum(values) / len(values) for name, values in of_layers.items()}


def run(
    group: list[Point],
    data: dict[str, DigitsTask],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Trains a group's points as replicas, or solves for a single one exactly."""
    task, config = digits.task_of(group[0], data), group[0].config
    if config.learner == "ntk_finite":
        outcomes = with_test([_solve(config, task, directory / SCRATCH)], task.test)
    else:
        rates, linear = [rate_of(point.config) for point in group], config.learner == "linearized"
        outcomes = digits.train(
            group,
            task,
            rates,
            directory,
            progress,
            output_scale=float("inf") if linear else config.output_scale,
            measures=() if linear else config.measures,  # a linearisation's kernel stays as it is
        )
    targets = task.test.targets
    sizes = {"num_test": len(targets), "chance": best_constant_accuracy(targets)}
    return [one._replace(metrics=with_means(one.metrics) | sizes) for one in outcomes]


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    varying=lambda config: () if config.learner == "ntk_finite" else ("seed",),
    in_parts=True,
)
