"""The report on networks of small norm, from made-up norms and errors, by hand."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.minimal_norm import settings
from lsa_jax.experiments.resnet.minimal_norm.report import make_report
from lsa_jax.reporting import files


def reported(workdir, hand=(), searches=()):
    """Returns results and report of networks by hand and of searches, by width and candidates."""
    rows = []
    for width, metrics in hand:
        found = metrics or {"message": "not finite"}
        row = {"part": "construction", "width": width, "seed": np.nan, "penalty": 1e-3}
        rows.append((row | found | {"status": "ok" if metrics else "failed"}, []))
    for width, candidates in searches:
        row = {"part": "search", "width": width, "seed": 0, "message": "all diverged"}
        best = min(candidates, key=lambda one: one["test_error"]) if candidates else {}
        rows.append((row | best | {"status": "ok" if candidates else "failed"}, candidates))
    for number, (row, history) in enumerate(rows):
        row["id"] = f"run{number}"
        files.write_run(workdir, row["id"], row, history)
    results = pd.DataFrame([row for row, _ in rows])
    return results, make_report(settings.default_config(), results, workdir)


def candidate(train, test, norm, rate=1.0):
    errors = {"train_error": train, "test_error": test}
    return {"learning_rate": rate, "weight_decay": 1e-5, **errors, "relative_norm": norm}


def drawn(report):
    """Returns the figure's curves by their labels: the values on both axes."""
    figure = report.figures["minimal_norm"]()
    (axis,) = figure.axes
    lines = {line.get_label(): np.array(line.get_data()) for line in axis.lines}
    assert (axis.get_legend() is not None) == bool(lines)
    plt.close(figure)
    return lines


def test_each_part_is_reported_without_the_other(tmp_path):
    made = {"relative_norm": 9.0, "test_error": 0.1}
    _, alone = reported(tmp_path / "hand", hand=[(200, made)], searches=[(200, [])])
    assert [heading for heading, _ in alone.tables] == ["Made by hand"]
    assert list(drawn(alone)) == ["made by hand, test error"]
    far = [candidate(0.05, 0.8, 30.0)]
    _, alone = reported(tmp_path / "search", hand=[(200, {})], searches=[(200, far)])
    assert [heading for heading, _ in alone.tables] == ["Best by SGD in test error"]


def test_of_each_width_the_three_candidates_of_least_test_error_are_shown(tmp_path):
    tests = {40: (0.9, 0.5, 0.7, 0.8, 0.6), 10: (0.4, 0.95)}
    searches = [
        (width, [candidate(0.3, error, 10 * error) for error in errors])
        for width, errors in tests.items()
    ]
    _, report = reported(tmp_path, searches=searches)
    ((_, table),) = report.tables
    assert table["m"].tolist() == [10, 10, 40, 40, 40]
    assert table["test_error"].tolist() == [0.4, 0.95, 0.5, 0.6, 0.7]
    assert table["relative_norm"].tolist() == [10 * error for error in table["test_error"]]
    candidates = report.extra_tables["candidates"]
    assert candidates.index.tolist() == list(range(7)) and set(candidates["seed"]) == {0}
    assert candidates["test_error"].tolist() == [*tests[40], *tests[10]]


def test_the_figure_has_the_least_norm_at_most_an_error_times_the_root_of_d(tmp_path):
    made = [(200, {"relative_norm": n, "test_error": e}) for n, e in ((9.0, 0.2), (11.0, 0.1))]
    runs = [candidate(0.0, 0.5, 30.0), candidate(0.3, 0.6, 20.0), candidate(0.4, 0.9, 25.0)]
    _, report = reported(tmp_path, hand=made, searches=[(200, runs)])
    lines, scale = drawn(report), 40**0.5  # d = 40
    hand = [[0.1, 0.2], [11 * scale, 9 * scale]]
    np.testing.assert_allclose(lines["made by hand, test error"], hand)
    norms = [30 * scale, 20 * scale, 20 * scale]
    test = [[0.5, 0.6, 0.9], norms]
    np.testing.assert_allclose(lines["least by SGD, test error"], test)
    train = [[1e-3, 0.3, 0.4], norms]  # no error is 0 on a logarithmic axis
    np.testing.assert_allclose(lines["least by SGD, train error"], train)
