"""Claims and tables of learned and fixed features, on made-up accuracies and cosines."""

import numpy as np
import pandas as pd
import pytest
from reports import make_report
from small_sweeps import maker

from lsa_jax.experiments.feature_learning.learning.report import ROWS, make_claims
from lsa_jax.experiments.feature_learning.learning.settings import SETTINGS, planned
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs

TABLE1 = "feature_learning/table1"
NOISE = 1e-3 * np.array([0.0, 1.0, -1.0, 0.5, -0.5])
PRINTED = {(row.learner, row.structured): row.printed for row in ROWS.values()}
make = maker(
    SETTINGS,
    {
        "paper_item": TABLE1,
        "sweep.ntk_rate": (),
        "sweep.random_features_rate": (),
        "sweep.first_rate": (10.0,),
        "sweep.leftover": (),
    },
)


def results_of(config, changes):
    """Returns the paper's numbers of a table, with noise from seed to seed, and changes.

    Changes are columns by learner, or by learner and structure, lists having a number a seed.
    """
    rows = []
    for place, point in enumerate(planned(config)):
        own = point["learner"], point["structured"]
        paper = FEATURE_LEARNING.get(config.paper_item, {}).get(PRINTED[own], (None, 50.0, None))
        row = {"train_accuracy": 1.0, "share_near": 0.0, "test_accuracy": paper[1] / 100}
        row |= {"cosine": 0.5 if paper[2] is None else paper[2]}
        changed = changes.get(own[0], {}) | changes.get(own, {})
        row |= {name: np.broadcast_to(v, 5)[point["seed"]] for name, v in changed.items()}
        rows.append(row | point | {"id": f"{place}", "status": "ok"})
    table = pd.DataFrame(rows)
    noise = NOISE[table["seed"]]
    accuracy = (table["test_accuracy"] + noise).clip(0, 1)
    return table.assign(test_accuracy=accuracy, cosine=table["cosine"] + noise)


def decided(config, changes):
    """Returns the statuses of the claims by item."""
    runs = Runs.of(planned(config), results_of(config, changes), fresh=True)
    runs = runs.assign(num_test=config.data.num_test)
    return {row.item: row.status for row in decide_all(make_claims(config), runs)}


@pytest.mark.parametrize(
    ("changes", "words", "status"),
    [
        # Within three points, and the other rows need the network's.
        ({("network", True): {"test_accuracy": 0.972}}, "Network, within 3", "shown"),
        ({("network", True): {"test_accuracy": 0.9707}}, "Network, within 3", "undecided"),
        ({("network", True): {"test_accuracy": 0.9707}}, "random features, w", "condition not met"),
        # Networks without structure have to fit in every seed, after early updates are measured.
        (
            {("memorise", False): {"train_accuracy": [1, 1, 1, 0.99, 1]}},
            "the end, within 3",
            "shown",
        ),
        (
            {("memorise", False): {"train_accuracy": [1, 1, 1, 0.989, 1]}},
            "the end, within 3",
            "condition not met",
        ),
        ({("network", False): {"train_accuracy": 1.0}}, "Network w/o structure.", "measured"),
        ({"network": {"test_accuracy": 0.8}}, "Network minus NTK", "not shown"),
        # The largest over rates of the first step; features of two steps have to suffice.
        ({"one_step_exact": {"test_accuracy": 0.6}}, "largest over rates", "shown"),
        ({"one_step_exact": {"test_accuracy": 1.0}}, "largest over rates", "not shown"),
        (
            {"one_step_exact": {"test_accuracy": [1.0, 1.0, 1.0, 0.98, 0.96]}},
            "largest over rates",
            "undecided",
        ),
        ({"two_step": {"test_accuracy": 0.78}}, "largest over rates", "condition not met"),
        ({"ntk": {"test_accuracy": 0.9}}, "NTK, within 3 points", "not shown"),
    ],
)
def test_each_claim_has_its_threshold_and_conditions(changes, words, status):
    found = decided(make()[0], changes)
    (own,) = {found[item] for item in found if words in f"{item}."}
    assert own == status


@pytest.mark.parametrize(
    ("cosine", "share", "start", "statuses"),
    [
        (0.995, 0.5, 0.0, ["shown", "shown"]),
        (0.995, 0.25, 0.0, ["not shown", "condition not met"]),
        (0.995, 0.5, 0.5, ["not shown", "condition not met"]),
        (0.995, [0.4, 0.2, 0.3, 0.1, 0.5], 0.0, ["undecided", "condition not met"]),
        (0.9, 0.5, 0.0, ["shown", "not shown"]),
    ],
)
def test_neurons_form_clusters_where_many_turn_and_one_is_near(cosine, share, start, statuses):
    fields = {"paper_item": None, "data__labels": "vectors", "sweep__unstructured_learner": ()}
    changes = {"network": {"cosine": cosine, "share_near": share}}
    changes |= {"random_features": {"cosine": 0.1, "share_near": start}}
    found = decided(make(**fields)[0], changes)
    assert [found[item] for item in found if "neuron" in item] == statuses


def test_tables_have_the_paper_s_numbers_and_ours_and_other_settings_have_their_own(tmp_path):
    config = make(sweep__ntk_rate=(1e-4,), sweep__seed=(0, 1))[0]
    results = results_of(config, {})
    for run in results["id"]:
        files.write_run(tmp_path, run, {"id": run, "status": "ok"}, [{"step": 0}])
    main, others = (table for _, table in make_report(config, results, tmp_path).tables)
    cells = ["84", "100 ± 0", "86.4", "86.45 ± 0.071", "", "0.5005 ± 0.00071"]
    assert main.set_index("row").loc["NTK"].tolist()[:6] == cells
    assert main.set_index("row").loc["NTK w/o structure"].tolist()[:3] == ["", "100 ± 0", ""]
    of = others.set_index(["learner", "rate"])["test %"]
    assert of["ntk", 1e-4] == "86.4"  # of the first seed alone
