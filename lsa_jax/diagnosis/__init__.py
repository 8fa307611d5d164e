"""Lazy or rich, of any network and data: one call, three graded answers and a word.

found = lsa_jax.diagnose(module, X, y)
print(found)
found.table; found.figure(); found.claims; found.to_html("answer.html")
"""

import base64
import datetime
import functools
import io
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import pandas as pd
from jaxtyping import Array, Key

import lsa_jax
from lsa_jax import arrays, training
from lsa_jax.checks import Kind, integer, number, optional, require
from lsa_jax.diagnosis import runs as running
from lsa_jax.diagnosis import sizes as sizing
from lsa_jax.diagnosis import tasks
from lsa_jax.diagnosis.runs import Pair
from lsa_jax.diagnosis.sizes import Pace, Sizes
from lsa_jax.diagnosis.tasks import Task
from lsa_jax.errors import InputError
from lsa_jax.models.any_library import as_model, params_of
from lsa_jax.models.model import ExampleShape, Model, state_names
from lsa_jax.reporting import files, grades
from lsa_jax.reporting.claims import FITTED
from lsa_jax.reporting.grades import Answer
from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.progress import Progress
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import claims_table, environment, mean_and_spread

__all__ = ["Diagnosis", "Sizes", "diagnose"]

_WARMUP = 0.1  # of all steps
_PAIRS = "a tuple (start, trained) of parameters, or a list of such tuples"
_RULE = Kind(
    lambda value: hasattr(value, "init") and hasattr(value, "update"),
    "an optax transformation, such as optax.adam(1e-3)",
    object,
)
_LABELS = {
    "network": "network",
    "ntk_trained": "NTK after training",
    "ntk_finite": "NTK at the start",
    "ntk_infinite": "infinite NTK",
}


class Diagnosis(NamedTuple):
    """Lazy or rich, of one network and one task.

    Attributes:
        rows: one a learner and seed: `test_accuracy` or `test_r2`; of the network also
            `linearization_error` (c), `train_accuracy` or `train_r2`, and measures of its kernel's
            change.
        answer: three grades and the word.
        task: the task, in words.
        sizes: chosen or given; `diagnose` with them repeats the run.
        course: c along training, `linearization_error` by `epoch` and `seed`; empty where
            parameters were given.
    """

    rows: pd.DataFrame
    answer: Answer
    task: str
    sizes: Sizes
    course: pd.DataFrame

    def __str__(self) -> str:
        return str(self.answer)

    @property
    def word(self) -> str:
        """The answer in a word, such as "lazy" or "rich"."""
        return self.answer.word

    @property
    def claims(self) -> pd.DataFrame:
        """The three questions with numbers and 95 % intervals."""
        rows = claims_table(row._asdict() for row in self.answer.claims)
        return rows.rename(columns={"paper": "criterion", "ours": "measured"})

    @property
    def table(self) -> pd.DataFrame:
        """Test score in percent by learner, mean ± standard deviation over seeds."""
        name = "test_accuracy" if "test_accuracy" in self.rows else "test_r2"
        label = "test accuracy (%)" if name == "test_accuracy" else "test R^2 (%)"
        by_learner = (100 * self.rows[name]).groupby(self.rows["learner"], sort=False)
        cells = by_learner.apply(mean_and_spread, ".2f").rename(label).reset_index()
        return cells.assign(learner=cells["learner"].map(_LABELS))

    def figure(self) -> Any:
        """Returns a figure: c, the two differences with their intervals, and c along training."""
        import matplotlib.pyplot as plt

        graded = self.answer.grades
        ratios = (1, 1.4, 1) if len(self.course) else (1, 1.4)
        figure, axes = plt.subplots(
            1, len(ratios), figsize=(3.3 * len(ratios), 2.6), layout="constrained",
            width_ratios=ratios,
        )  # fmt: skip
        for axis, own in zip(axes[:2], (graded[:-2], graded[-2:]), strict=True):
            for place, one in enumerate(own):
                reach = [[max(one.number - one.low, 0)], [max(one.high - one.number, 0)]]
                axis.errorbar(one.number, place, xerr=np.nan_to_num(reach), fmt="o", capsize=4)
            axis.set_yticks(range(len(own)), [one.question for one in own])
            axis.set_ylim(max(len(own), 1) - 0.5, -0.5)
        axes[0].set(xlim=(0, max(1.0, *(g.high for g in graded[:-2]), 1.0)), xlabel="c")
        for cut, color in ((grades.FOLLOWS, "C0"), (grades.LEAVES, "C3")):
            axes[0].axvline(cut, color=color, lw=1, ls="--")
        axes[1].axvspan(-self.answer.margin, self.answer.margin, color="0.9")
        axes[1].axvline(0, color="0.5", lw=1)
        axes[1].set(xlabel="difference, points")
        for _, own in self.course.groupby("seed") if len(self.course) else ():
            axes[2].plot(own["epoch"], own["linearization_error"], "o-", color="0.4", ms=3)
            axes[2].set(xscale="log", ylim=(0, None), xlabel="epoch", ylabel="c")
        figure.suptitle(textwrap.fill(self.word, 80), fontsize="medium")
        return figure

    @property
    def _caption(self) -> str:
        """The lines and the band of the figure, in words."""
        return (
            f"Left: dashed lines are the cut-offs {grades.FOLLOWS:g} and {grades.LEAVES:g} of c. "
            f"Middle: the grey band is the margin, {self.answer.margin:.2g} points either way. "
            "Bars are 95 % intervals." + " Right: a line for each seed." * bool(len(self.course))
        )

    def to_html(self, path: str | Path, command: str = "") -> None:
        """Writes a page with the answer, the figure and all tables.

        Args:
            path: the file.
            command: printed at the foot, with the date and versions.
        """
        import matplotlib.pyplot as plt

        picture = io.BytesIO()
        with plt.style.context("default"):  # whatever a user's matplotlibrc has, such as LaTeX
            figure = self.figure()
            figure.savefig(picture, format="png", dpi=140)
        plt.close(figure)
        rows = self.rows.drop(columns="id").replace({"learner": _LABELS})
        parts = [self.table, self.claims, rows]
        if len(self.course):
            along = self.course.pivot(index="epoch", columns="seed", values="linearization_error")
            along = along.round(3).add_prefix("c of seed ").rename_axis(columns=None)
            parts.insert(2, along.reset_index())
        template = environment().get_template("diagnosis.html")
        page = template.render(
            answer=self.answer,
            task=self.task,
            picture=base64.b64encode(picture.getvalue()).decode(),
            caption=self._caption,
            tables=[part.to_html(index=False, border=0, na_rep="") for part in parts],
            sizes=self.sizes,
            command=command,
            date=datetime.date.today(),
            versions={"lsa_jax": lsa_jax.__version__, "jax": jax.__version__},
        )
        files.write_text(Path(os.path.expanduser(path)), page)


def diagnose(
    model: Any,
    X: Any,  # noqa: N803
    y: Any,
    *,
    params: Any = (),
    kernel: Callable[..., Array] | None = None,
    key: Key[Array, ""] | None = None,
    minutes: float = 3.0,
    seeds: int | None = None,
    folds: int | None = None,
    examples: int | None = None,
    epochs: int | None = None,
    measured_examples: int | None = None,
    batch_size: int = 50,
    optimizer: optax.GradientTransformation | None = None,
    progress: bool = True,
) -> Diagnosis:
    """Answers whether a network learns features of some data, or only fits a kernel.

    It trains the network, and fits exact ridge regressions with its finite NTK at the start and
    after training, and with its infinite-width kernel where there is one; their ridges are chosen
    by leave-one-out errors. All are compared on the same test examples, see `reporting.grades`.

        found = lsa_jax.diagnose(module, X, y)
        found = lsa_jax.diagnose(module, (X, y), (X_test, y_test))

    Args:
        model: a network of flax, equinox, Haiku or this package, see `models.any_library`.
        X: inputs [n, ...]; or the pair of inputs and targets to train on.
        y: targets: classes, see `tasks.ACCEPTED`, or real numbers; or the test set's pair. Without
            a test set, examples are tested in 3 folds up to 2,000, and on a quarter above.
        params: (start, trained), or a list of such pairs, of networks that are there already, as
            `models.any_library.params_of` accepts them: nothing is trained, and each pair is a
            seed. Takes a test set.
        kernel: `(x1, x2=None) -> [n1, n2]` at infinite width; None is the model's own.
        key: draws splits, parameters and the order of examples; None is `jax.random.key(0)`.
        minutes: budget, from which the sizes that are not given are chosen.
        seeds: networks a split.
        folds: splits.
        examples: examples that are used, at most all.
        epochs: passes over the training examples at most. Training ends earlier, once 99 % of them
            are right (R^2 of 0.99).
        measured_examples: training examples that the kernel's change is measured on.
        batch_size: examples a step.
        optimizer: None is Adam with a peak rate of 1e-3 and a cosine's half, times the model's own
            `rate_factors` (of muP).
        progress: whether to print the task, the sizes, the expected time and a progress bar.

    Raises:
        InputError: an argument is not accepted.
        NumericalError: a kernel or its solution is not finite.
    """
    sizes = Sizes(seeds, folds, examples, epochs, measured_examples)
    given = _check(sizes, batch_size, minutes, optimizer)
    key_examples, key_splits, key_seeds = _keys(key)
    task = tasks.fitted(model := as_model(model), _task(X, y))
    known = _pairs(params, model, task)
    kernel = kernel or (model.ntk if model.kernel else None)
    given |= {"seeds": len(known), "epochs": 0} if known else {}
    given |= {} if task.test is None else {"folds": 1}
    say = functools.partial(print, flush=True) if progress else lambda text: None
    say("\n".join((task.words, *task.hints)))
    timed = progress or None in (given["folds"], given["examples"])
    pace = sizing.measure_pace(model, kernel, task, batch_size) if timed else Pace()
    sizes = sizing.choose(task, pace, minutes, batch_size, given)
    expected = sizing.expected_seconds(sizes, task, pace, batch_size)
    say(_plan(sizes, sum(expected), minutes))
    untested = task.test is None and (sizes.folds == 1 or sizes.examples < len(task.train.targets))
    task = tasks.subset(key_examples, task, sizes.examples)
    parts = list(tasks.splits(key_splits, task, sizes.folds))
    with Progress(100, unit="part", shown=progress) as bar:
        trained = 0.0 if known else 100 * expected[0] / sum(expected)
        pairs, course, done = [known], pd.DataFrame(), None
        if not known:
            steps = sizes.epochs * -(-len(parts[0].rows) // batch_size)
            pairs, course, done = running.train(
                jax.random.split(key_seeds, sizes.seeds),
                model,
                task,
                parts,
                epochs=sizes.epochs,
                batch_size=batch_size,
                optimizer=optimizer or _adam(model, task, steps),
                fit=FITTED,
                progress=lambda share: bar.advance_to(trained * share, "training"),
            )
        given_kernels = model, kernel, task, parts, pairs, sizes.measured_examples
        found = running.compare(
            *given_kernels,
            lambda share: bar.advance_to(trained + (100 - trained) * share, "kernels"),
        )
    answer = grades.grade(found, more_examples=untested, epochs=done)
    answer = answer._replace(notes=(*answer.notes, *_notes(model, task, pairs[0])))
    return Diagnosis(found.finished, answer, task.words, sizes, _course(course, found, done))


def _plan(sizes: Sizes, seconds: float, minutes: float) -> str:
    """Returns the sizes and their expected time, in words."""
    over = f", above the budget of {minutes:g} min" * (seconds > 60 * minutes)
    return f"{sizes}: at most about {duration(seconds)}{over}"


def _keys(key: Key[Array, ""] | None) -> Key[Array, " 3"]:
    """Returns the keys that draw examples, splits and networks."""
    key = jax.random.key(0) if key is None else arrays.random_key("key", key)
    return jax.random.split(key, 3)


def _check(sizes: Sizes, batch_size: int, minutes: float, optimizer: Any) -> dict[str, Any]:
    """Returns the sizes by name, None for those to be chosen, or raises InputError."""
    given = sizes._asdict()
    for name, value in given.items():
        least = 2 if name in ("examples", "measured_examples") else 1
        require(name, value, optional(integer(least)))
    require("batch_size", batch_size, integer(1))
    require("minutes", minutes, number(0, above=True))
    require("optimizer", optimizer, optional(_RULE))
    return given


def _task(X: Any, y: Any) -> Task:  # noqa: N803
    pair = [isinstance(part, tuple) and len(part) == 2 for part in (X, y)]
    if all(pair):
        return tasks.make_task(*X, test=tuple(y))
    if any(pair):
        raise InputError(
            "one of X and y is a pair and the other is not; accepted: diagnose(model, X, y) or "
            "diagnose(model, (X, y), (X_test, y_test))"
        )
    return tasks.make_task(X, y)


def _notes(model: Model, task: Task, pairs: list[Pair]) -> list[str]:
    """Returns how the network was evaluated and how seeds differ, where it is not the usual."""
    notes = task.hints
    if names := state_names(model, pairs[0].start, task.train.inputs[:1]):
        notes.append(
            f"{', '.join(names)}: f_T, f_0 and both kernels use the trained network's running "
            "statistics, in evaluation mode"
        )
    first, *others = (jax.tree.leaves(pair.start) for pair in pairs)
    if others and all(all(map(np.array_equal, first, other)) for other in others):
        notes.append("all seeds have one start, so intervals cover the order of examples alone")
    return notes


def _course(course: pd.DataFrame, found: Runs, epochs: int | None) -> pd.DataFrame:
    """Returns c along training with its end, which is that of the answer."""
    if epochs is None:
        return course
    end = found.where(learner="network").finished[["seed", "linearization_error"]]
    before = course[course["epoch"] < epochs]
    return pd.concat([before, end.assign(epoch=epochs)], ignore_index=True)


def _pairs(params: Any, model: Model, task: Task) -> list[Pair]:
    """Returns pairs of parameters: a tuple is one pair, a list holds several."""
    pairs = [params] if isinstance(params, tuple) and params else params or []
    require("params", pairs, Kind(lambda value: isinstance(value, list), _PAIRS, list))
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise InputError(f"params has an entry that is no pair; accepted: {_PAIRS}")
    if pairs and task.test is None:
        raise InputError(
            "params are given and no test set; accepted with params: diagnose(model, (X, y), "
            "(X_test, y_test)), as the networks may have been trained on any of X"
        )
    example = ExampleShape.of(task.train.inputs)
    return [Pair(*(params_of(model, one, example) for one in pair)) for pair in pairs]


def _adam(model: Model, task: Task, steps: int) -> optax.GradientTransformation:
    shape = tuple(ExampleShape.of(task.train.inputs))
    factors = model.rate_factors and jax.tree.map(float, model.rate_factors(shape, "adam"))
    warmup = max(1, round(_WARMUP * steps))
    rate = optax.warmup_cosine_decay_schedule(0.0, 1e-3, warmup, max(steps, warmup + 1))
    return training.make_optimizer("adam", rate, rate_factors=factors)
