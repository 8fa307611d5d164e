"""What every experiment gives to the sweep that runs it."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from lsa_jax.arrays import digest
from lsa_jax.reporting.courses import EXAMPLES, SHARE, counter, is_measure
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.fields import Config, import_part
from lsa_jax.sweep.points import Point, group_points

# Called with the fraction of a group that is done.
Progress = Callable[[float], None]

# Below a group's directory: what is worth nothing once the group's results are stored. The sweep
# removes it then.
SCRATCH = "scratch"


class Outcome(NamedTuple):
    """What came out of one point.

    Attributes:
        metrics: final numbers by name; become columns of `results.csv`.
        history: one dictionary a report step; become the lines of `metrics.jsonl`.
        status: "failed" where a loss or a solve left the finite numbers.
        message: why it failed, in one line; empty where it did not.
        timings: numbers of the clock, which differ from run to run; columns beside `seconds`.
        outcomes: results on each test example; None where the run has no test set.
    """

    metrics: dict[str, Any]
    history: list[dict[str, Any]]
    status: Literal["ok", "failed"] = "ok"
    message: str = ""
    timings: dict[str, float | None] = {}
    outcomes: Outcomes | None = None


def with_last_measures(outcome: Outcome, cost: tuple[int, float | None] | None) -> Outcome:
    """Returns an outcome with the last of the measures along it, and the cost of measuring.

    The cost is the number of examples measured on, and its time over that of training.
    """
    if cost is None or outcome.status != "ok":
        return outcome
    examples, share = cost
    found = {EXAMPLES: examples}
    for row in outcome.history:
        found |= {name: value for name, value in row.items() if is_measure(name)}
    timings = {**outcome.timings, SHARE: share}
    return outcome._replace(metrics=outcome.metrics | found, timings=timings)


def with_course(
    outcome: Outcome, rows: list[dict[str, Any]], cost: tuple[int, float | None] | None
) -> Outcome:
    """Returns an outcome with rows of measures, which have the step or epoch of their measuring.

    They lie in order among the outcome's own rows where those have such a number too, and after
    them elsewhere; `files.read_metrics` leaves them out.
    """
    history = [*outcome.history, *rows]
    unit = counter(history)
    if unit != "row":
        history.sort(key=lambda row: row[unit])
    return with_last_measures(outcome._replace(history=history), cost)


def outcome_of(history: Any, replica: int) -> Outcome:
    """Returns the outcome of one network of a `training.History`: its last losses and metrics."""
    rows = [
        {name: v[replica].item() if isinstance(v, np.ndarray) else v for name, v in row.items()}
        for row in history.rows
    ]
    if replica in history.failures:
        return Outcome({}, rows, "failed", history.failures[replica])
    last = {n: v for n, v in sorted(rows[-1].items()) if n.startswith(("test_", "train_"))}
    kept = None if history.outcomes is None else Outcomes(history.outcomes[replica])
    outcome = Outcome(last, rows, outcomes=kept)
    return with_last_measures(outcome, history.measured)


def with_test(outcomes: Iterable[Outcome], test: Any) -> list[Outcome]:
    """Returns outcomes whose results on test examples name the test set, a tree of arrays."""
    name = f"{digest(test):08x}"
    return [
        one if one.outcomes is None else one._replace(outcomes=one.outcomes._replace(test=name))
        for one in outcomes
    ]


class Experiment(NamedTuple):
    """An experiment, for the sweep that runs it.

    Attributes:
        run: `(group, data, directory, progress) -> one Outcome a point`. `directory` is the group's
            own, for checkpoints, and `SCRATCH` below it for files that are not needed after the
            run; `progress(fraction)` reports the share of the group that is done.
        report: `(config, runs, workdir) -> Report`, from the runs that finished, with claims for
            the sweep to decide by them.
        load: `(points, data_dir) -> data`. Reads the points' data, unless examples are drawn on
            the way; raises `InputError` where they are missing or damaged, before anything is
            written.
        varying: fields in which points of a group may differ, which run together as replicas; or
            `(config) -> fields` where this depends on the point. Without any, points run alone. All
            of a sweep is grouped, also where some points are done: a resumed sweep compiles the
            same programs.
        columns: `(config) -> values by name` that the results have for every point, also where
            they were not swept. Metrics of the same name replace them.
        arrange: orders the points of a group, before it is cut.
        in_parts: whether groups are cut into parts of at most `config.max_replicas` points.
        on_host: `(config) -> bool`; True where a point is computed by numpy and scipy on the
            host, without programs for a device.
        fresh: `(config) -> bool`; True where each seed draws a test set of its own.
        report_version: raised by one where a change of code alters claims or figures, so that
            published records are made again.
    """

    run: Callable[[list[Point], Any, Path, Progress], list[Outcome]]
    report: Callable[[Config, Runs, Path], Report]
    load: Callable[[list[Point], Path | None], Any] = lambda points, data_dir: None
    varying: Collection[str] | Callable[[Config], Collection[str]] = ()
    columns: Callable[[Config], dict[str, Any]] = lambda config: {}
    arrange: Callable[[list[Point]], list[Point]] = lambda group: group
    in_parts: bool = False
    on_host: Callable[[Config], bool] = lambda config: False
    fresh: Callable[[Config], bool] = lambda config: False
    report_version: int = 1

    def groups(self, points: list[Point]) -> list[list[Point]]:
        """Returns the points that run together."""
        names = self.varying
        parts = []
        for group in group_points(points, names if callable(names) else lambda config: names):
            group = self.arrange(group)
            size = group[0].config.max_replicas if self.in_parts else len(group)
            parts += [group[first : first + size] for first in range(0, len(group), size)]
        return parts


def load_experiment(name: str) -> Experiment:
    """Returns the experiment of this name.

    Raises:
        InputError: there is no such experiment.
    """
    return import_part(name, "experiment").EXPERIMENT
