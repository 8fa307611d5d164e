"""Learned and fixed features, on inputs made of hidden patterns.

Shi, Wei and Liang (ICLR 2022), section 6 and appendices E.1 to E.3.1: a two-layer network whose
first two steps have rates of their own, its linearisation and its random features, linear models
on the features after either step, and the same without input structure. Seeds are replicas of one
program.
"""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lsa_jax.experiments.feature_learning.learning import learners
from lsa_jax.experiments.feature_learning.learning.report import make_report
from lsa_jax.experiments.feature_learning.learning.settings import described
from lsa_jax.experiments.feature_learning.learning.tasks import make_task
from lsa_jax.experiments.feature_learning.pictures import picture_rows
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, with_last_measures, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.segments import Checkpoints, Evaluations, run_evaluations


def evaluation_steps(config: Config) -> list[int]:
    """Returns the steps after which a run is measured: the start, the first steps, then evenly.

    All runs have as many evaluations, however many steps they take.
    """
    total = learners.total_steps(config)
    every = max(config.eval_every * total // config.steps, 1)
    first = learners.FIRST_STEPS.get(config.learner, 0)
    begin = list(range(first + 1)) if config.learner == "network" else [first]
    return [*begin, *range(every * (first // every + 1), total, every), total]


def _train(
    group: list[Point], replicas: list[learners.LearnerReplica], directory: Path, progress: Progress
) -> tuple[Evaluations, list[learners.LearnerState], np.ndarray]:
    """Trains the runs of a group together, from their last checkpoint if there is one.

    Returns:
        The runs; all of them before their minibatches, at the start and after the first steps; and
        1.0 for test examples that they have right at the end, [runs, examples].
    """
    config, layout = group[0].config, ReplicaLayout(len(group))
    spread = layout.spread(jax.tree.map(lambda *leaves: jnp.stack(leaves), *replicas))
    steps = evaluation_steps(config)
    longest = int(max(np.diff(steps), default=1))
    program = layout.map(functools.partial(learners.advance, config, longest), 2)
    start = layout.map(functools.partial(learners.start_states, config), 1)
    found = layout.gather(start(spread))
    stages = [
        jax.tree.map(lambda leaf, at=at: leaf[:, at], found) for at in range(found.step.shape[1])
    ]
    course = None
    if config.learner in ("network", "memorise"):
        apply = learners.network_of(config, replicas[0]).apply
        trains = [replica.train for replica in replicas]
        course = learners.course_of_runs(config, apply, stages[0].params, trains, steps)
    runs = run_evaluations(
        layout,
        lambda state, count: program(state, spread, count),
        stages,
        steps,
        kept=Checkpoints(directory, config.checkpoint_every),
        finished=lambda runs: bool(runs.stopped.all()),
        course=course,
        progress=progress,
    )
    on_test = layout.map(functools.partial(learners.results_on_test, config), 2)
    return runs, stages, layout.gather(on_test(layout.spread(runs.state), spread))


def _picture(
    config: Config, replica: learners.LearnerReplica, stages: list[learners.LearnerState]
) -> list[dict[str, Any]]:
    """Returns places of the first run's neurons at the start, after step 1 and after step 2."""
    _, idle = jax.jit(functools.partial(learners.initial_params, config))(replica)
    truth = np.zeros(config.data.d, np.float32)
    truth[: len(replica.direction)] = replica.direction
    weights = [
        np.concatenate([stage.params["w"][0], stage.idle_scale[0] * idle]).T for stage in stages
    ]
    return picture_rows([0, 1, 2], weights, np.stack([truth, -truth]))


def _outcome(runs: Evaluations, replica: int, right: np.ndarray) -> Outcome:
    history, taken = runs.history(replica), int(runs.state.step[replica])
    if taken < runs.steps[-1]:
        message = f"the loss was not finite at step {taken}; lower the rate"
        return Outcome({}, history, "failed", message)
    last = {name: value for name, value in history[-1].items() if name != "step"}
    return with_last_measures(Outcome(last, history, outcomes=Outcomes(right == 1)), runs.cost)


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains and measures the runs of a group together; exact models one by one.

    A run whose loss stops being finite has failed; the others go on.
    """
    config, outcomes = group[0].config, []
    if config.learner in learners.EXACT:
        for done, point in enumerate(group, start=1):
            outcomes.append(learners.fit_exactly(point.config))
            progress(done / len(group))
        return outcomes
    by_seed = {point.config.seed: point.config for point in group}
    tasks = {seed: make_task(config) for seed, config in by_seed.items()}
    replicas = [learners.make_replica(p.config, tasks[p.config.seed]) for p in group]
    runs, stages, right = _train(group, replicas, directory, progress)
    for place, replica in enumerate(replicas):
        outcomes += with_test([_outcome(runs, place, right[place])], replica.test)
    if config.learner == "network" and config.structured and config.pictures:
        outcomes[0].history.extend(_picture(config, replicas[0], stages))
    return outcomes


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    fresh=lambda config: True,
    report_version=4,
    varying=("seed", "ntk_rate", "random_features_rate"),
    columns=described,
    on_host=lambda config: config.learner in learners.EXACT,
)
