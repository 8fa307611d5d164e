"""Tables 1 to 5 and figure 15 of the paper, and the effect of one step: claims, tables, figures.

Source: Shi, Wei and Liang (ICLR 2022), section 6 and appendices E.1 to E.3.1.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lsa_jax.experiments.feature_learning import pictures
from lsa_jax.experiments.feature_learning.learning.learners import FEW_EXAMPLES
from lsa_jax.experiments.feature_learning.learning.settings import described, first_steps, planned
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting.claims import Claim, Condition, above_chance, fitted, shown
from lsa_jax.reporting.curves import draw_series, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import accuracy, highest, minus, value
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config

# Largest distance of a test accuracy from the paper's, in points, and of a cosine. Less where
# another number of the same table is near.
POINTS, COSINE = 3.0, 0.02
# Expected standard deviations over seeds: that of 10,000 fair coins in points, as each seed draws a
# test set, and that of the nearest of 600 random directions in 500 dimensions.
POINTS_SD, COSINE_SD = 0.5, 0.004
# Features suffice from this test accuracy on, in percent.
SUFFICES = 99.0
# A neuron is learned if it is as near to the truth as the paper's are in every table, up to COSINE.
LEARNED = min(table["network"][2] for table in FEATURE_LEARNING.values()) - COSINE
# The second step turns only neurons whose bias lies between the kinks, 0 and 1: of biases of mean
# zero, half at most. Clusters form if it turns half of those to the truth.
CLUSTER = 0.25

# The work's main table, whose claims are primary.
MAIN = "feature_learning/table1"
# In coordinates of an orthonormal dictionary training does not depend on the dimension: these
# tables have the runs of table 1, but for the cosines of neurons that keep some of their start.
SAME_RUNS = {"feature_learning/table3_d100": MAIN, "feature_learning/table3_d2000": MAIN}


class TableRow(NamedTuple):
    """One row of a table; `printed` is the paper's row that it is compared with, if any."""

    heading: str
    learner: str
    structured: bool = True
    printed: str | None = None


# The paper's network without structure fits its training examples. Which of our two such rows does
# so depends on the table.
_OTHER, _NO = "random_features", "without_structure"
ROWS = {
    "network": TableRow("Network", "network", printed="network"),
    "ntk": TableRow("NTK", "ntk", printed="ntk"),
    "random_features": TableRow("random features", _OTHER, printed=_OTHER),
    "one_step": TableRow("One Step", "one_step", printed="one_step"),
    "one_step_exact": TableRow("One Step, best classifier", "one_step_exact", printed="one_step"),
    "two_step": TableRow("Two Step", "two_step", printed="two_step"),
    "two_step_exact": TableRow("Two Step, best classifier", "two_step_exact", printed="two_step"),
    "without_structure": TableRow("Network w/o structure", "network", False, _NO),
    "memorise": TableRow("Network w/o structure, to the end", "memorise", False, _NO),
    "ntk_without": TableRow("NTK w/o structure", "ntk", False),
    "random_features_without": TableRow("random features w/o structure", _OTHER, False),
}


def settings_of(config: Config, name: str, **changed: object) -> dict[str, object]:
    """Returns the columns of settings of a row's runs, with some fields of other values."""
    own = {"learner": ROWS[name].learner, "structured": ROWS[name].structured}
    found = described({**config, **own, **changed})
    return {field: value for field, value in found.items() if field != "seed"}


# --- claims -------------------------------------------------------------------------------------


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims of a sweep."""
    claims = _printed_claims(config) if config.paper_item else []
    if config.data.labels == "vectors":
        claims += _cluster_claims(config)
    if config.paper_item not in SAME_RUNS:
        claims += _order_claims(config) + _first_step_claims(config)
    return claims


def _printed_claims(config: Config) -> list[Claim]:
    """Returns agreement with the numbers that a table prints: test accuracies and cosines.

    Where the network does not have the paper's accuracy, other rows are not compared. Two kinds of
    numbers are left out: of runs that another table has, where that table's margin contains the
    paper's number here; and the cosine of features with another classifier.
    """
    paper = FEATURE_LEARNING[config.paper_item]
    other = FEATURE_LEARNING.get(SAME_RUNS.get(config.paper_item), {})
    learners = {True: config.sweep.learner, False: config.sweep.unstructured_learner}
    learned = shown(_accuracy_claim(config, "network"), "the network has the paper's accuracy")
    claims = []
    for name, (heading, learner, structured, printed) in ROWS.items():
        if printed is None or learner not in learners[structured]:
            continue
        own = settings_of(config, name)
        conditions = (learned,) if name != "network" else ()
        conditions += () if structured else (fitted(f"the {heading}", **own),)
        _, percent, cosine = paper[printed]
        # The paper's network without structure fits its examples, with parity labels ours does so
        # only when it is trained to the end: that row is compared, the other one measured.
        early = name == "without_structure" and config.data.labels == "parity"
        compared = _measured if early and "memorise" in learners[False] else lambda claim: claim
        if not other or abs(percent - other[printed][1]) > POINTS:
            claims.append(compared(_accuracy_claim(config, name, conditions)))
        repeated = bool(other) and cosine and abs(cosine - other[printed][2]) <= COSINE
        if cosine is not None and not repeated and not name.endswith("_exact"):
            item = f"cosine of the nearest neuron, {heading}, within {COSINE:g}"
            near, agreement = value("cosine", bounds=(-1.0, 1.0), **own), {"seed_sd": COSINE_SD}
            own_conditions = conditions or (above_chance("the network", **own),)
            agreement |= {"paper": cosine, "within": COSINE, "conditions": own_conditions}
            claims.append(compared(Claim(item, near, **agreement)))
    return claims


def _measured(claim: Claim) -> Claim:
    """Returns a claim of agreement without its range, which is measured."""
    item = claim.item.partition(", within")[0]
    paper = f"{claim.paper:g}, of a network that fits its training set"
    return Claim(item, claim.statistic, paper=paper)


def _accuracy_claim(config: Config, name: str, conditions: tuple[Condition, ...] = ()) -> Claim:
    """Returns the agreement of a row's test accuracy with the paper's.

    The margin is half the distance to the nearest number of the table that is a point away or more.
    """
    paper = FEATURE_LEARNING[config.paper_item]
    percent = paper[ROWS[name].printed][1]
    apart = [abs(percent - row[1]) for row in paper.values()]
    margin = min([POINTS, *(distance / 2 for distance in apart if distance > 1)])
    return Claim(
        f"test accuracy in %, {ROWS[name].heading}, within {margin:.3g} points",
        accuracy(**settings_of(config, name)),
        paper=percent,
        within=margin,
        seed_sd=POINTS_SD,
        conditions=conditions,
        # Without structure in its inputs the network fits them and guesses.
        primary=name == "memorise" and config.paper_item == MAIN,
    )


def _cluster_claims(config: Config) -> list[Claim]:
    """Returns the claims that training turns many neurons to the truth, and one closely.

    Random features of a seed have the neurons that its network starts with.

    Source: appendix E.3.1, figure 15, which prints no number.
    """
    network, start = (settings_of(config, name) for name in ("network", "random_features"))
    near = functools.partial(value, "share_near", bounds=(0.0, 1.0))
    share = Claim(
        f"share of neurons within {config.angle:g} degrees of the truth or its negative, "
        "Network minus its start",
        minus(near(**network), near(**start)),
        paper=f"above {CLUSTER:g}: neurons form clusters (figure 15)",
        above=CLUSTER,
    )
    cosine = Claim(
        "cosine of the nearest neuron, Network",
        value("cosine", bounds=(-1.0, 1.0), **network),
        paper=f"above {LEARNED:g}: neurons form clusters (figure 15)",
        above=LEARNED,
        conditions=(shown(share, "neurons form a cluster"),),
    )
    return [share, cosine]


def _order_claims(config: Config) -> list[Claim]:
    """Returns the claims that the network exceeds fixed features, where the paper's network does.

    All learners take the same number of updates.
    """
    paper, network = FEATURE_LEARNING.get(config.paper_item), settings_of(config, "network")
    return [
        Claim(
            f"points of test accuracy, Network minus {ROWS[name].heading}",
            minus(accuracy(**network), accuracy(**settings_of(config, name))),
            above=0.0,
            primary=config.paper_item == MAIN,
        )
        for name in ("ntk", "random_features")
        if paper is None or paper["network"][1] > paper[name][1]
    ]


def _first_step_claims(config: Config) -> list[Claim]:
    """Returns the claim that features need the second step."""
    if "one_step_exact" not in config.sweep.learner:
        return []
    two = Claim("", accuracy(**settings_of(config, "two_step")), above=SUFFICES)
    kinds = [
        settings_of(config, "one_step_exact", first_rate=rate, leftover=leftover)
        for rate, leftover in first_steps(config)
    ]
    best = Claim(
        "test accuracy in %, best classifier after one step, largest over rates of step 1",
        highest([accuracy(**kind) for kind in kinds]),
        paper=f"below {SUFFICES:g}: features need the second step (section 6)",
        below=SUFFICES,
        conditions=(shown(two, f"Two Step is above {SUFFICES:g} %"),),
        primary=config.paper_item == MAIN,
    )
    return [best]


# --- tables and figures -------------------------------------------------------------------------

# Columns of the tables and their headings; the paper prints the first three.
_COLUMNS = {
    "train_accuracy": "train %",
    "test_accuracy": "test %",
    "cosine": "cosine",
    "test_first_accuracy": f"test %, first {FEW_EXAMPLES}",
    "test_balanced_accuracy": "balanced test %",
    "share_near": "share near",
    "feature_size": "size of <w, x>",
}
_DRAWN = ("network", "ntk", "random_features")
_TITLES = ["at the start", "after one step", "after two steps"]


def _tables(config: Config, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns the paper's table with ours, and the runs with other settings than its rows have."""
    percent = {name: 100 * rows[name] for name in _COLUMNS if name in rows and "accuracy" in name}
    rows = rows.assign(**percent)
    main = table_of_means(rows[rows["row"] != ""], ["row"], _COLUMNS)
    if paper := FEATURE_LEARNING.get(config.paper_item):
        names = {row.heading: row.printed for row in ROWS.values()}
        numbers = [paper.get(names[heading], (None,) * 3) for heading in main["row"]]
        for place, column in enumerate(zip(*numbers, strict=True)):
            cells = ["" if number is None else f"{number:g}" for number in column]
            main.insert(1 + 2 * place, f"{[*_COLUMNS.values()][place]}, paper", cells)
    rest = rows[rows["row"] == ""]
    varied = [name for name in settings_of(config, "network") if rest[name].nunique() > 1]
    others = table_of_means(rest, varied or ["learner"], _COLUMNS)
    tables = {
        "Accuracy and cosine of the nearest neuron": main,
        "Other rates, first steps, updates and class weights": others,
    }
    return [(heading, table) for heading, table in tables.items() if len(table)]


def _draw_curves(curves: pd.DataFrame) -> Any:
    """Draws mean test accuracy against updates: solid with structure, dashed without."""
    figure, ((axis,),) = subplots(1, 1, 6, 4)
    percent = curves.assign(percent=100 * curves["test_accuracy"])
    for structured, line in ((True, "-"), (False, "--")):
        drawn = percent["learner"].isin(_DRAWN) & (percent["structured"] == structured)
        style = {"limits": (0, 100), "linestyle": line}
        draw_series(axis, percent[drawn], "step", "percent", "row", **style)
    axis.set(xlabel="updates", ylabel="test accuracy (%)")
    axis.legend(frameon=False, fontsize="small")
    return figure


_NOTES = [
    "Means over seeds ± their standard deviation. Cosine is that of the nearest neuron with "
    "sum_j M_j over A; share near is the share of neurons within config.angle of it or of its "
    "negative. Learners take the same number of updates, but where trained to the end. A best "
    "classifier is that of least squares in float64; train is the accuracy on as many training "
    "examples as there are test examples.",
    "The paper gives no learning rates, optimiser of the minibatches or test size: the "
    "configuration's are ours, and so is the part of its start that step 1 keeps, which One "
    "Step's cosine depends on.",
]
_SAME = (
    "Training does not depend on the dimension, as inputs are coordinates in an orthonormal "
    "dictionary: accuracies are those of table 1, which states their claims."
)


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the tables, the claims, the curves and the pictures of a sweep."""
    names = {tuple(settings_of(config, name).values()): row.heading for name, row in ROWS.items()}
    settings = runs.finished[[*settings_of(config, "network")]].itertuples(index=False, name=None)
    rows = runs.finished.assign(row=[names.get(own, "") for own in settings])
    columns = ("row", "id", "learner", "structured")
    curves, drawn = pictures.read_courses(workdir, rows[rows["row"] != ""], columns)
    figures, extra = {"curves": functools.partial(_draw_curves, curves)}, {"curves": curves}
    for own in drawn.values():  # of the first seed's network alone
        figures["weights"] = functools.partial(pictures.draw_pictures, own, _TITLES)
        extra["weights"] = pictures.table_of_pictures(own)
    counted = rows.assign(num_test=config.data.num_test)
    return Report(
        tables=_tables(config, rows),
        claims=make_claims(config),
        # Runs are matched by the columns of `described`, which follow from several fields.
        runs=Runs.of(planned(config), counted, runs.outcomes, fresh=runs.fresh),
        figures=figures,
        extra_tables=extra,
        notes=[*_NOTES, _SAME] if config.paper_item in SAME_RUNS else _NOTES,
    )
