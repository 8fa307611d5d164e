"""A one-layer Transformer learns decision lists by gradient descent on the population.

Karp (thesis, 2024), chapter 4: theorem 4.3 (V = cP, W trained), theorem 4.4 (V near cP, both
trained), figure 4.1 (one step on V), and the question that it leaves open (both trained from a
random V).

No outcomes on test examples are kept: accuracies are of the whole population, which is trained on.
"""

from pathlib import Path
from typing import Any

from lsa_jax.experiments.transformers.report import make_report
from lsa_jax.experiments.transformers.sampler import make_lists
from lsa_jax.experiments.transformers.settings import AXES
from lsa_jax.experiments.transformers.theorems import run_theorem
from lsa_jax.experiments.transformers.training import run_training
from lsa_jax.experiments.transformers.value_step import run_step
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point


def _columns(config: Config) -> dict[str, Any]:
    names = ["vocabulary_size", "sequence_length", "list_length", *AXES[config.question], "seed"]
    if config.question == "value_step":
        names.append("gradient")
        if config.gradient == "exact":
            names.remove("num_sequences")
    return {name: config[name] for name in names}


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Answers the group's question."""
    del data
    tasks = [make_lists(point.config) for point in group]
    config = group[0].config
    if config.question == "value_random":
        return run_training(group, tasks, directory, progress)
    answer = run_step if config.question == "value_step" else run_theorem
    return [answer(config, tasks[0])]


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    # Runs from a random V share a program; others are single.
    varying=lambda config: (
        ("seed", "value_scale", "randomness") if config.question == "value_random" else ()
    ),
    columns=_columns,
    on_host=lambda config: config.question != "value_random",
    report_version=2,
)
