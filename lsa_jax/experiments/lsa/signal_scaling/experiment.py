"""How many steps and samples Algorithm 1 needs to a small error, as the number of rows k grows.

Karp et al. (NeurIPS 2021), theorem 1: polynomially many in k, for k from some k0 on. Runs on fresh
minibatches end when the exact error of their network (from `signal.population`, so without test
noise) is small enough; the population gradient's flow is the limit of small steps.
"""

from pathlib import Path

import numpy as np

from lsa_jax.experiments.lsa.signal.population import flow_to_target, measure, misclassification
from lsa_jax.experiments.lsa.signal_dynamics import experiment
from lsa_jax.experiments.lsa.signal_scaling.report import make_report
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.segments import Evaluations


def _outcome(runs: Evaluations, errors: np.ndarray, replica: int, config: Config) -> Outcome:
    """Returns a run's outcome where it first reached the target, or else where it ended."""
    reached = errors[:, replica] <= config.target_error
    index = int(reached.argmax()) if reached.any() else len(errors) - 1
    outcome = experiment.outcome(runs._replace(last=index), replica)
    if outcome.status == "failed":
        return outcome
    history = [
        {**row, "test_error": error}
        for row, error in zip(outcome.history, errors[: index + 1, replica].tolist(), strict=True)
    ]
    steps = history[-1]["step"]
    results = {
        "reached": bool(reached.any()),
        "steps_taken": steps,
        "samples": steps * config.batch_size,
        "test_error": history[-1]["test_error"],
    }
    return outcome._replace(metrics=results | outcome.metrics, history=history)


def _error(state: list[float], config: Config) -> float:
    """Returns the exact error at (w.w*, |w_perp|, b); NaN where these are not finite."""
    sigma = noise_std(config.k, config.noise_scale)
    return misclassification(*state, sigma, config.k) if np.isfinite(state).all() else np.nan


def _run_sgd(group: list[Point], directory: Path, progress: Progress) -> list[Outcome]:
    target, rows = group[0].config.target_error, []

    def errors(runs: Evaluations) -> np.ndarray:
        """Returns the errors at all evaluations, [evaluations, replicas]; each computed once."""
        for i in range(len(rows), runs.last + 1):
            state = [runs.table[name][i] for name in ("w_dot_wstar", "w_perp_norm", "b")]
            states = np.stack(state, axis=1).tolist()
            rows.append([_error(s, p.config) for s, p in zip(states, group, strict=True)])
        return np.array(rows)

    def finished(runs: Evaluations) -> bool:
        reached = (errors(runs) <= target).any(axis=0)
        return bool((reached | runs.stopped).all())

    runs = experiment.run_until(finished, group, directory, progress)
    table = errors(runs)
    return [_outcome(runs, table, replica, p.config) for replica, p in enumerate(group)]


def _run_flow(config: Config) -> Outcome:
    flow, sigma = flow_to_target(config)
    measures = measure(flow.states[-1], sigma, config.k)
    steps = float(flow.times[-1]) / config.learning_rate
    results = {
        "reached": flow.reached,
        "steps_taken": steps,
        "test_error": 1 - measures["test_accuracy"],
        **{name: measures[name] for name in ("w_dot_wstar", "w_perp_norm", "b", "ratio")},
    }
    return Outcome(results, [{"step": steps, **measures}])


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains the runs of a group until each has reached the target, or follows a flow to there."""
    del data
    if group[0].config.learner == "population":
        return [_run_flow(point.config) for point in group]
    return _run_sgd(group, directory, progress)


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    report_version=2,
    # Runs with other noise scales end at other times, so they would wait for each other.
    varying=lambda config: (
        () if config.learner == "population" else set(experiment.VARYING) - {"noise_scale"}
    ),
    on_host=lambda config: config.learner == "population",
)
