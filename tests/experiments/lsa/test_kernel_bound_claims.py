"""Theorems 1 and 2 and section 3 beside made-up errors: decisions and report."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.lsa.kernel_bound import settings
from lsa_jax.experiments.lsa.kernel_bound.claims import make_claims
from lsa_jax.experiments.lsa.kernel_bound.report import make_report
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs

# Kernels of many filters, without which few would say nothing of their number.
MANY = {64: [0.001, 0.002]}


def table(kernel_errors, network_errors, linear_errors=()):
    learners = [("kernel", m, errors) for m, errors in kernel_errors.items()]
    learners += [("network", 1, network_errors), ("linear", 1, linear_errors)]
    rows = [
        {"learner": learner, "k": 9, "d": 3, "m": m, "seed": s, "test_error": error}
        | {"status": "ok"}
        for learner, m, errors in learners
        for s, error in enumerate(errors)
    ]
    return pd.DataFrame(rows)


def decided(results, num_test):
    """Returns the decided claims: of the kernels' share, of the network, of the linear one."""
    filters = sorted(results.loc[results["learner"] == "kernel", "m"].unique())
    runs = Runs.of([], results.assign(num_test=num_test))
    rows = decide_all(make_claims([(9, map(int, filters))]), runs)
    share = [row for row in rows if row.item.startswith("share")]
    (network,) = (row for row in rows if "network" in row.item)
    (linear,) = (row for row in rows if "linear" in row.item)
    return share, network, linear


def test_the_linear_classifiers_error_is_its_closed_form():
    linear = decided(table({}, [0.001] * 3, [0.4, 0.5]), 3000)[2]
    assert linear.ours == pytest.approx(scipy.stats.norm.sf(3**-0.5), abs=1e-4)
    assert (linear.status, linear.low) == ("not shown", None)


@pytest.mark.parametrize(
    ("errors", "num_test", "status"),
    [
        (
            0.3 + 1e-6 * np.arange(20),
            3000,
            "undecided",
        ),  # 20 draws tell little of a probability of 0.999
        ([0.3, 0.05], 3000, "not shown"),  # one draw is surely below the bound
        ([0.3, 0.09], 3000, "undecided"),  # 9 % of 3,000 examples are no sure exception
        (0.3 + 1e-6 * np.arange(3688), 10**6, "shown"),  # 0.999^3688 is below 2.5 %
        (0.3 + 1e-6 * np.arange(3687), 10**6, "undecided"),
    ],
)
def test_the_share_of_draws_is_decided_by_the_exact_binomial_interval(errors, num_test, status):
    rows = table({1: errors, **MANY}, [0.001, 0.003])
    ((share, *_), network, _) = decided(rows, num_test)
    assert (share.status, network.status) == (status, "shown")


def test_kernels_that_fail_show_nothing_where_nothing_could_be_learned():
    fails = decided(table({1: [0.3, 0.31], **MANY}, [0.1, 0.2]), 3000)
    assert fails[0][0].status == "condition not met" and fails[1].status == "not shown"
    no_search = decided(table({1: [0.3, 0.31]}, [0.001, 0.003]), 3000)
    assert no_search[0][0].status == "condition not met"


@pytest.mark.parametrize(
    ("errors", "num_test", "status"),
    [
        ([0.001, 0.002], 10_000, "shown"),
        ([0.001], 10_000, "shown of one seed"),
        ([0.001, 0.0095], 10_000, "undecided"),
        ([0.001, 0.02], 10_000, "not shown"),
    ],
)
def test_the_network_errs_on_next_to_nothing_for_every_seed(errors, num_test, status):
    assert decided(table({}, errors), num_test)[1].status == status


def test_a_report_has_errors_and_how_many_reach_the_bound_by_m(tmp_path):
    fine = table({1: [0.25, 0.05], 3: [0.1, 0.2]}, [0.001, 0.003], [0.5, 0.5])
    columns = dict.fromkeys(("least_test_error", "discriminant_error", "predicted_error"), 0.5)
    failed = fine.iloc[:1].assign(test_error=0.9, status="failed")
    results = pd.concat([fine, failed]).assign(**columns)
    report = make_report(settings.default_config(), results, tmp_path)
    errors, shares, fits = (frame for _, frame in report.tables)
    assert list(errors) == ["k", "m = 1", "m = 3", "network", "linear"]
    of_kernels = "0.150 ± 0.141", "0.150 ± 0.071"
    assert errors.iloc[0].tolist() == [9, *of_kernels, "0.002 ± 0.001", "0.500 ± 0.000"]
    assert shares.iloc[0].tolist() == [9, "1 of 2", "2 of 2", "0 of 2", "2 of 2"]
    assert (
        fits["m"].tolist() == [1, 3] and fits["predicted error"].tolist() == ["0.500 ± 0.000"] * 2
    )
    figure = report.figures["kernel_bound"]()
    lines = {line.get_label(): line.get_data() for line in figure.axes[0].lines}
    np.testing.assert_allclose(lines["k = 9"], [[1, 3], [0.15, 0.15]])
    np.testing.assert_allclose(lines["network, k = 9"][1], [0.002, 0.002])
    np.testing.assert_allclose(lines["bound of theorem 2"][1], [0.1, 0.1])
    plt.close(figure)
    alone = make_report(
        settings.default_config(), results[results["learner"] == "network"], tmp_path
    )
    assert alone.tables == [] and "probability of 0.999 is decided by how many" in alone.notes[0]
