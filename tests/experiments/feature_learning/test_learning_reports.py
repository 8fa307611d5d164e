"""Tables, curves and pictures of learned and fixed features, from made-up results."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.learning import report, settings
from lsa_jax.experiments.feature_learning.learning.settings import planned
from lsa_jax.sweep.variants import set_fields


def configure(**fields):
    given = {"paper_item": "feature_learning/table1", "sweep.seed": (0, 1), "sweep.ntk_steps": (9,)}
    given |= {"sweep.ntk_rate": (1e-4,), "sweep.leftover": ()}
    return set_fields(settings.default_config(), given | fields)


def runs_of(config, accuracies):
    """Returns made-up runs of the learners given, whose second seed is two points better."""
    fixed = {"cosine": 0.997, "train_accuracy": 0.75, "share_near": 0.25, "feature_size": np.nan}
    fixed |= {"test_balanced_accuracy": 0.9, "test_first_accuracy": 0.5, "status": "ok"}
    rows = [
        fixed | point | {"id": f"{place}"}
        for place, point in enumerate(planned(config))
        if (point["learner"], point["structured"]) in accuracies
    ]
    table = pd.DataFrame(rows)
    keys = zip(table["learner"], table["structured"], strict=True)
    return table.assign(test_accuracy=[accuracies[key] for key in keys] + 0.02 * table["seed"])


def test_the_table_has_the_paper_s_numbers_and_ours_in_percent(tmp_path, write_courses):
    config = configure(rate=0.5)
    learners = {("network", True): 0.97, ("ntk", True): 0.8, ("network", False): 0.5}
    results = runs_of(config, learners | {("ntk", False): 0.6})
    results.loc[results["structured"] & (results["rate"] == 1e-5), "cosine"] = np.nan
    shown = {"places": [[0.1, 0.2]], "marks": [[0.5, 0.6]], "nearest": [0]}
    first, second = results.loc[results["learner"] == "network", "id"][:2]
    courses = dict.fromkeys(results["id"], [])
    courses[first] = [{"step": step, "test_accuracy": 0.5 + 0.1 * step} for step in (0, 4)]
    courses[first] += [{"picture": step, **shown} for step in (0, 1, 2)]
    courses[second] = [{"step": 0, "test_accuracy": 0.7}]
    write_courses(tmp_path, courses)
    made = report.make_report(config, results, tmp_path)
    table = made.tables[0][1].set_index("")
    assert table.index.tolist() == ["Network", "NTK", "Network w/o structure", "NTK w/o structure"]
    assert table.loc["Network"].tolist()[:7] == [
        *("100", "75.00 ± 0.00", "100", "98.00 ± 1.41", "0.997", "0.9970 ± 0.0000"),
        "50.00 ± 0.00",
    ]
    assert table.loc["NTK"].tolist()[:6] == ["84", "75.00 ± 0.00", "86.4", "81.00 ± 1.41", "", ""]
    assert table.loc["NTK w/o structure"].tolist()[:3] == ["", "75.00 ± 0.00", ""]
    assert made.extra_tables["curves"]["row"].tolist() == ["network"] * 3
    assert made.extra_tables["weights"]["picture"].unique().tolist() == [0, 1, 2]
    assert len(made.figures["weights"]().axes) == 3
    (line,) = made.figures["curves"]().axes[0].get_lines()
    np.testing.assert_allclose(line.get_ydata(), [60, 90])
    nothing = report.make_report(config, results.assign(status="failed"), tmp_path)
    assert nothing.tables == [] and "weights" not in nothing.figures


def test_other_settings_have_tables_of_their_own_runs(tmp_path, write_courses):
    config = configure(**{"sweep.class_weights": ("none",)})
    learners = ("network", "ntk", "one_step", "one_step_exact", "two_step")
    results = runs_of(config, {(learner, True): 0.6 for learner in learners})
    results.loc[results["steps"] == 9, "test_accuracy"] = 0.9
    results.loc[results["first_rate"] == 10, "test_accuracy"] = 0.3
    results.loc[results["class_weights"] == "none", "test_accuracy"] = 0.4
    write_courses(tmp_path, dict.fromkeys(results["id"], []))
    made = report.make_report(config, results, tmp_path)
    _, rates, first, updates, weights = (table.set_index("")["test %"] for _, table in made.tables)
    assert rates["NTK, rate 0.0001"] == "60.00" and len(rates) == 2  # of the first seed alone
    assert first["One Step, rate 1e-06, 0.045 of the start left"] == "61.00 ± 1.41"
    assert first["One Step, best classifier, rate 10, 0.045 of the start left"] == "30.00 ± 0.00"
    assert len(first) == 6
    assert updates.tolist() == ["90.00 ± 0.00", "61.00 ± 1.41"]
    assert weights.tolist() == ["61.00 ± 1.41", "40.00 ± 0.00"] * 2
