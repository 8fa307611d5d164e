"""Which learning rate is best, at every width: muP's stays where it is, the standard one falls.

Yang et al., Tensor Programs V (arXiv 2203.03466), figure 1, on digits.
"""

import functools
from collections.abc import Callable
from pathlib import Path

from lsa_jax import models, training
from lsa_jax.experiments.lazy_rich import networks, tasks
from lsa_jax.experiments.lazy_rich.learning_rates.report import make_report
from lsa_jax.experiments.lazy_rich.tasks import DigitsTask, load
from lsa_jax.models.scaled import FROZEN, network_params
from lsa_jax.sweep.experiment import Experiment, Outcome, with_last_measures
from lsa_jax.sweep.points import Point


def run(
    group: list[Point],
    data: dict[str, DigitsTask],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Trains a group's points as replicas.

    A loss that is not finite is an outcome like others here: the rate is too large.
    """
    task, model = tasks.task_of(group[0], data), networks.build(group[0].config)
    rates = [point.config.learning_rate for point in group]
    loss = training.softmax_cross_entropy
    config, trained, frozen = group[0].config, model, ()
    measuring = training.Measuring(config.measures, config.measured_examples, model.apply)
    if config.output_scale is not None:
        trained, frozen = models.scaled(model, config.output_scale), FROZEN
        own = functools.partial(network_params, output_scale=config.output_scale)
        measuring = measuring._replace(network=own)
    _, history = networks.train(
        group, task, trained, rates, loss, directory, progress, frozen, measuring
    )
    outcomes = []
    for replica in range(len(group)):
        rows = networks.rows_of(history, replica)
        if replica in history.failures:
            outcomes.append(Outcome({"diverged": True}, rows))
            continue
        outcome = Outcome({"diverged": False} | networks.at_end(rows), rows)
        outcomes.append(with_last_measures(outcome, history.measured))
    return outcomes


EXPERIMENT = Experiment(
    load=load, run=run, report=make_report, varying=("learning_rate", "seed"), in_parts=True
)
