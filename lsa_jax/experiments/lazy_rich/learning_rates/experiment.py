"""The best learning rate at every width: muP's stays, the standard one's falls.

Yang et al., Tensor Programs V (arXiv 2203.03466), figure 1, on digits.
"""

from collections.abc import Callable
from pathlib import Path

from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.digits import DigitsTask, load
from lsa_jax.experiments.lazy_rich.learning_rates.report import make_report
from lsa_jax.sweep.experiment import Experiment, Outcome
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
    config = group[0].config
    outcomes = digits.train(
        group,
        digits.task_of(group[0], data),
        [point.config.learning_rate for point in group],
        directory,
        progress,
        output_scale=config.output_scale,
        measures=config.measures,
    )
    return [
        Outcome({"diverged": True}, one.history)
        if one.status == "failed"
        else one._replace(metrics={"diverged": False} | one.metrics)
        for one in outcomes
    ]


EXPERIMENT = Experiment(
    load=load, run=run, report=make_report, varying=("learning_rate", "seed"), in_parts=True
)
