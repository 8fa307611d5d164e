"""What no row of the paper's tables is about: other first steps, more updates, other weights.

Why One Step is at chance has three explanations, which the sweep takes apart: the rate of step 1,
what it leaves of the initial weights, and the classifier on its features.
"""

from typing import NamedTuple

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import doubt
from lsa_jax.experiments.feature_learning.learning.rows import ROWS
from lsa_jax.experiments.feature_learning.learning.training import FEW_EXAMPLES
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting import claims as rule
from lsa_jax.reporting import intervals
from lsa_jax.reporting.report import Claim

# From this accuracy on features suffice.
SUFFICES = 0.99


class FirstStep(NamedTuple):
    """One Step as the sweep has it.

    Attributes:
        rate: of step 1.
        leftover: what step 1 leaves of the initial weights, over its rate.
        exact: whether the classifier is the best one, by least squares, or descent's.
    """

    rate: float
    leftover: float
    exact: bool


def _classifier(exact: bool) -> str:
    return "the best classifier" if exact else "descent"


def first_steps(fine: pd.DataFrame) -> dict[FirstStep, pd.DataFrame]:
    """Returns the seeds of One Step by what it is, in the order of the rates."""
    rows = fine[fine["learner"].isin(("one_step", "one_step_exact"))]
    if rows.empty or not {"first_rate", "leftover"} <= set(rows):
        return {}
    rows = rows.assign(exact=rows["learner"] == "one_step_exact")
    groups = rows.groupby(["first_rate", "leftover", "exact"])
    return {FirstStep(rate, left, bool(exact)): own for (rate, left, exact), own in groups}


def _accuracy(rows: pd.DataFrame) -> pd.Series:
    return 100 * rows.set_index("seed")["test_accuracy"]


def measured_accuracy(item: str, paper: str | float, percent: pd.Series, num_test: int) -> Claim:
    """Returns an accuracy in percent with its interval, over seeds and test examples."""
    error = 100 * intervals.binomial_error(percent.mean() / 100, num_test)
    claim = rule.measured(item, paper, round(percent.mean(), 2), percent, error)
    return claim.within(0.0, 100.0)


def measured_gain(item: str, before: pd.DataFrame, after: pd.DataFrame, num_test: int) -> Claim:
    """Returns by how many points the accuracy of some seeds is above that of the same before."""
    points = (_accuracy(after) - _accuracy(before)).dropna()
    shares = [rows["test_accuracy"].mean() for rows in (before, after)]
    error = 100 * intervals.difference_error(*shares, num_test)
    return rule.measured(item, "", round(points.mean(), 2), points, error)


def _changed_alone(
    found: dict[FirstStep, pd.DataFrame], own: FirstStep, num_test: int
) -> list[Claim]:
    """Returns what each explanation gains by itself, and what all of them lose without it.

    The paper's One Step as configured here is one end; the best classifier on the features of the
    largest rate that was run, with the least left of the start, is the other.
    """
    other = FirstStep(max(of.rate for of in found), min(of.leftover for of in found), True)
    claims = []
    for field, words in (
        ("rate", f"step 1's rate at {other.rate:g}"),
        ("leftover", f"{other.leftover:g} of the start left"),
        ("exact", "the best classifier"),
    ):
        if getattr(own, field) == getattr(other, field):
            continue
        one = own._replace(**{field: getattr(other, field)})
        all_but = other._replace(**{field: getattr(own, field)})
        for first, last, item in (
            (own, one, f"gained by {words} alone"),
            (all_but, other, f"lost by all three without {words}"),
        ):
            if first in found and last in found:
                item = f"points of test accuracy, One Step: {item}"
                claims.append(measured_gain(item, found[first], found[last], num_test))
    return claims


def _needs_second(
    config: ml_collections.ConfigDict, best: dict[FirstStep, pd.DataFrame], unless: str
) -> list[Claim]:
    """Returns whether the best classifier after one step is below `SUFFICES` at every rate.

    The kind of step whose interval reaches furthest up decides.
    """
    item = f"best classifier after one step, at every rate run, below {100 * SUFFICES:g} %"
    claims = []
    for rows in best.values():
        percent, num_test = 100 * rows["test_accuracy"], config.data.num_test
        error = 100 * intervals.binomial_error(percent.mean() / 100, num_test)
        options = {"below": 100 * SUFFICES, "examples_error": error, "unless": unless}
        claim = rule.compare(item, "features need the second step", percent, **options)
        claim = doubt(claim, [rows], config.sweep.seed, ("test_accuracy", "cosine"), num_test)
        claims.append(claim.within(0.0, 100.0))
    ranks = {"not shown": 2, "undecided": 1}
    worst = max(claims, key=lambda claim: (ranks.get(claim.status, 0), claim.high or 0.0))
    return [worst._replace(ours=f"at most {worst.ours:.2f} %")]


def _first_step_claims(
    config: ml_collections.ConfigDict, fine: pd.DataFrame, unless: str
) -> list[Claim]:
    """Returns whether features of one step suffice at some rate, from which on, and why."""
    found = first_steps(fine)
    if len(found) < 2:
        return []
    best = {of: rows for of, rows in found.items() if of.exact}
    claims = _needs_second(config, best, unless) if best else []
    for leftover, exact in sorted({(of.leftover, of.exact) for of in found}):
        own = {of.rate: rows for of, rows in found.items() if of[1:] == (leftover, exact)}
        if len(own) < 2:
            continue
        enough = [r for r, rows in own.items() if rows["test_accuracy"].min() >= SUFFICES]
        item = f"least rate of step 1 at which one step suffices, {100 * SUFFICES:g} % or more: "
        item += f"{_classifier(exact)}, {leftover:g} of the start left"
        ours = f"{min(enough):g}" if enough else f"none up to {max(own):g}"
        percent = {r: rule.cell(100 * rows["test_accuracy"], ".2f") for r, rows in own.items()}
        listed = ", ".join(f"{cell} at {rate:g}" for rate, cell in percent.items())
        claims.append(rule.measured(item, "", f"{ours} (test %: {listed})"))
    one_step = FirstStep(config.first_rate, config.leftover, False)
    return claims + _changed_alone(found, one_step, config.data.num_test)


def _first_step_table(found: dict[FirstStep, pd.DataFrame]) -> pd.DataFrame:
    lines: dict[tuple[float, float], dict[str, str]] = {}
    for of, rows in found.items():
        line = lines.setdefault(
            of[:2],
            {
                "rate of step 1": f"{of.rate:g}",
                "of the start left, over the rate": f"{of.leftover:g}",
                "size of <w, x>": "",
                "cosine": rule.cell(rows["cosine"], ".4f"),
            },
        )
        line[f"{_classifier(of.exact)}, test %"] = rule.cell(100 * rows["test_accuracy"], ".2f")
        if of.exact and "feature_size" in rows:
            line["size of <w, x>"] = rule.cell(rows["feature_size"], ".2g")
    return pd.DataFrame(list(lines.values())).fillna("")


def _by_updates(
    config: ml_collections.ConfigDict, fine: pd.DataFrame
) -> list[tuple[str, pd.DataFrame]]:
    """Returns the seeds of the NTK by how long it was trained, in words; none if there is one.

    At its rate, and at another one that longer runs have: in the order of rate times updates.
    """
    if "steps" not in fine:
        return []
    rows = fine[(fine["learner"] == "ntk") & fine["structured"]]
    long_rate = config.sweep.ntk_long_rate or config.ntk_rate
    own_rate = rows["steps"].map(
        lambda steps: config.ntk_rate if steps == config.steps else long_rate
    )
    rows = rows[rows["rate"] == own_rate]
    if "class_weights" in rows:
        rows = rows[rows["class_weights"] == config.class_weights]
    found = {}
    for (steps, rate), own in rows.groupby(["steps", "rate"]):
        words = f"{int(steps)} updates" + (f" at {rate:g}" if rate != config.ntk_rate else "")
        found[steps * rate, words] = own
    return [(words, found[time, words]) for time, words in sorted(found)] if len(found) > 1 else []


def _update_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what the NTK comes to, and by how much it still rose: it has converged if it did not.

    Accuracies on the first test examples, as few as the paper's rows suggest, stand beside, and
    those on training examples: an NTK of more weights than examples ends where it fits them all.
    """
    found, claims = _by_updates(config, fine), []
    train, test, _ = FEATURE_LEARNING.get(config.paper_item, {}).get("ntk", ("", "", None))
    few = min(FEW_EXAMPLES, config.data.num_test)
    for words, rows in found:
        for column, item, printed, count in (
            ("train_accuracy", "training accuracy in %", train, config.data.num_test),
            ("test_accuracy", "test accuracy in %", test, config.data.num_test),
            ("test_first_accuracy", "test accuracy in %", test, few),
        ):
            if column in rows:
                item += f", NTK after {words}"
                item += ", first test examples" if column == "test_first_accuracy" else ""
                claims.append(measured_accuracy(item, printed, 100 * rows[column], count))
    for (fewer, before), (more, after) in zip(found, found[1:], strict=False):
        item = f"points of test accuracy, NTK after {more} minus after {fewer}"
        claims.append(measured_gain(item, before, after, config.data.num_test))
    return claims


def _by_weights(
    config: ml_collections.ConfigDict, fine: pd.DataFrame
) -> list[tuple[str, str, pd.DataFrame]]:
    """Returns (weighting, learner, its seeds) of the weightings other than the configuration's."""
    if "class_weights" not in fine:
        return []
    rows = fine[fine["structured"] & (fine["class_weights"] != config.class_weights)]
    return [(*key, own) for key, own in rows.groupby(["class_weights", "learner"], sort=False)]


def comparison_claims(
    config: ml_collections.ConfigDict, fine: pd.DataFrame, unless: str
) -> list[Claim]:
    """Returns the claims of One Step's sweep, the NTK's updates and other class weights.

    Args:
        config: of the sweep.
        fine: its finished points.
        unless: why nothing here can speak for the paper; empty where it can.
    """
    claims = _first_step_claims(config, fine, unless) + _update_claims(config, fine)
    for weights, learner, rows in _by_weights(config, fine):
        item = f"test accuracy in %, {ROWS[learner][2]}, class weights: {weights}"
        number = FEATURE_LEARNING.get(config.paper_item, {}).get(learner, (None, ""))[1]
        percent = 100 * rows["test_accuracy"]
        claims.append(measured_accuracy(item, number, percent, config.data.num_test))
    return claims


def _percentages(name: str, rows: pd.DataFrame) -> dict[str, str]:
    columns = {"train %": "train", "test %": "test", "balanced test %": "test_balanced"}
    cells = {
        heading: rule.cell(100 * rows[f"{column}_accuracy"], ".2f")
        for heading, column in columns.items()
    }
    if "test_first_accuracy" in rows:
        cells["test %, first examples"] = rule.cell(100 * rows["test_first_accuracy"], ".2f")
    return {"": name} | cells | {"cosine": rule.cell(rows["cosine"], ".4f")}


def _by_rate(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> pd.DataFrame:
    """Returns the fixed features' test accuracy by rate, as the paper gives none."""
    lines = []
    for name in ("ntk", "random_features"):
        rows = fine[(fine["learner"] == name) & fine["structured"]]
        for setting in ("class_weights", "steps"):
            if setting in rows:
                rows = rows[rows[setting] == config[setting]]
        for rate, at in rows.groupby("rate"):
            lines.append(
                {
                    "": ROWS[name][2],
                    "rate": f"{rate:g}",
                    "test %": rule.cell(at["test_accuracy"] * 100, ".2f"),
                    "seeds": str(len(at)),
                }
            )
    return pd.DataFrame(lines)


def comparison_tables(
    config: ml_collections.ConfigDict, fine: pd.DataFrame
) -> list[tuple[str, pd.DataFrame]]:
    """Returns the tables of what is compared, those that have a line."""
    found = first_steps(fine)
    updates = [_percentages(words, own) for words, own in _by_updates(config, fine)]
    weights = [
        _percentages(f"{ROWS[learner][2]}, {weights}", rows)
        for weights, learner, rows in _by_weights(config, fine)
    ]
    tables = [
        ("Fixed features by learning rate", _by_rate(config, fine)),
        (
            "One Step by rate of step 1, start left and classifier",
            _first_step_table(found) if len(found) > 1 else pd.DataFrame(),
        ),
        ("NTK by number of updates", pd.DataFrame(updates)),
        ("Other class weights", pd.DataFrame(weights)),
    ]
    return [(heading, table) for heading, table in tables if len(table)]
