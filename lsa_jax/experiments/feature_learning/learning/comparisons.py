"""What no row of the paper's tables is about: other first steps, more updates, other weights."""

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.learning.first_steps import (
    first_step_claims,
    first_step_table,
    first_steps,
)
from lsa_jax.experiments.feature_learning.learning.measured import (
    measured_accuracy,
    measured_gain,
)
from lsa_jax.experiments.feature_learning.learning.rows import ROWS
from lsa_jax.experiments.feature_learning.learning.training import FEW_EXAMPLES
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting import claims as rule
from lsa_jax.reporting.report import Claim


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
    claims = first_step_claims(config, fine, unless) + _update_claims(config, fine)
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
            first_step_table(found) if len(found) > 1 else pd.DataFrame(),
        ),
        ("NTK by number of updates", pd.DataFrame(updates)),
        ("Other class weights", pd.DataFrame(weights)),
    ]
    return [(heading, table) for heading, table in tables if len(table)]
