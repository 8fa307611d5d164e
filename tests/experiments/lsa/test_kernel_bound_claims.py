"""Theorems 1 and 2 and section 3 beside made-up errors: claims and report, by hand."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.lsa.kernel_bound import settings
from lsa_jax.experiments.lsa.kernel_bound.claims import make_claims
from lsa_jax.experiments.lsa.kernel_bound.report import make_report


@pytest.mark.parametrize(
    ("errors", "network", "status"),
    [
        ((0.495, 0.496, 0.494), 0.001, "shown"),
        ((0.442, 0.445, 0.44), 0.001, "not shown"),
        ((0.495, 0.496, 0.494), 0.3, "undecided"),
    ],
)
def test_the_linear_classifier_fails_as_section_3_says_from_0_49_on(errors, network, status):
    claim = make_claims(table({}, [network] * 3, errors), 30_000)[-1]
    assert (claim.paper, claim.status) == ("0.49 or more", status)


# Kernels of many filters, without which those of few would say nothing of their number.
MANY = {64: [0.001, 0.002]}


def table(kernel_errors, network_errors, linear_errors=()):
    learners = [("kernel", m, errors) for m, errors in kernel_errors.items()]
    learners += [("network", 1, network_errors), ("linear", 1, linear_errors)]
    rows = [
        {"learner": learner, "k": 9, "m": m, "seed": s, "test_error": error, "status": "ok"}
        for learner, m, errors in learners
        for s, error in enumerate(errors)
    ]
    return pd.DataFrame(rows)


# So many draws tell a share of 0.999 from less: 0.999^3688 is below 2.5 %, 0.999^3687 is not.
ENOUGH = 3688


def shares(claims):
    """Returns the claims of theorem 2: how large a share of draws errs on a tenth or more."""
    return [claim for claim in claims if claim.item.startswith("share of draws")]


def test_the_share_of_draws_that_err_is_theirs_and_their_mean_is_measured():
    errors = {1: [0.3, 0.28], 2: [0.3, 0.09], 3: [0.3, 0.05], 8: [0.0, 0.0]}
    claims = make_claims(table(errors, [0.001, 0.003]), 3000)
    assert [(c.ours, c.status) for c in claims] == [
        (0.29, "measured"),
        ("2 of 2", "undecided"),
        (0.195, "measured"),
        ("1 of 2", "undecided"),  # of 3,000 examples 9 % are no sure exception
        (0.175, "measured"),
        ("1 of 2", "not shown"),
        (0.002, "shown"),
        ("", "not run"),
    ]
    half = np.hypot(scipy.stats.t.ppf(0.975, 1) * 0.01, 1.96 * np.sqrt(0.29 * 0.71 / 6000))
    assert claims[0].low == pytest.approx(0.29 - half, abs=1e-4)
    assert claims[0].spread == pytest.approx(0.02 / 2**0.5)
    # Clopper and Pearson, of two draws: 2.5 % is the chance of both at a share of its root.
    assert claims[1].low == pytest.approx(0.025**0.5, abs=1e-4) and claims[1].high == 1
    assert claims[5].high == pytest.approx(1 - (1 - 0.975**0.5), abs=1e-4)
    assert claims[1].note == f"it would take {ENOUGH:,} draws"
    assert claims[3].note == f"it would take {ENOUGH:,} draws and more test examples"


def test_draws_show_the_theorem_s_probability_where_there_are_as_many_as_it_takes():
    def share(draws, exceptions=0):
        errors = [0.3 + 1e-6 * draw for draw in range(draws - exceptions)] + [0.01] * exceptions
        return shares(make_claims(table({1: errors, **MANY}, [0.001] * 2), 3000))[0]

    for draws, status in ((3, "undecided"), (ENOUGH - 1, "undecided"), (ENOUGH, "shown")):
        assert share(draws).status == status
    # An exception refutes where the theorem has one such in a thousand only by luck.
    assert [share(draws, 1).status for draws in (3, 25, 26)] == ["not shown"] * 2 + ["undecided"]
    assert share(26, 1).note == "it would take more draws"


def test_a_network_that_errs_or_was_not_run_shows_nothing():
    draws = {1: [0.3 + 1e-6 * draw for draw in range(ENOUGH)], **MANY}
    for network, status in (([0.001, 0.2], "not shown"), ([], "not run")):
        _, share, claim, _ = make_claims(table(draws, network), 3000)
        assert (share.status, claim.status) == ("undecided", status)
        assert share.note == "the network is not shown to learn"
    assert make_claims(table(draws, [0.001] * 2), 3000)[1].status == "shown"


@pytest.mark.parametrize(
    ("kernel", "network", "statuses"),
    [
        (0.1001, 0.0099, ["shown", "shown"]),
        (0.0999, 0.0099, ["not shown", "shown"]),
        (0.1001, 0.0101, ["undecided", "not shown"]),
    ],
)
def test_a_tenth_bounds_kernels_of_up_to_four_filters_and_a_hundredth_the_network(
    kernel, network, statuses
):
    draws = [kernel + 1e-9 * draw for draw in range(ENOUGH)]
    found = make_claims(table({4: draws, 5: [0.5], **MANY}, [network] * 2), 10**10)
    assert [claim.status for claim in found] == ["measured", *statuses, "not run"]
    assert found[0].item.endswith("m = 4") and found[1].item.endswith("m = 4")


def test_errors_next_to_their_bounds_take_more_test_examples():
    draws = [0.105 + 1e-6 * (draw % 2) for draw in range(ENOUGH)]
    near = table({1: draws, **MANY}, [0.008] * 2)
    for num_test, status in ((500, "undecided"), (100_000, "shown")):
        _, share, network, _ = make_claims(near, num_test)
        assert (share.status, network.status) == (status, status)


def test_what_is_refuted_would_not_take_more_test_examples():
    for errors, status, note in (
        ((0.02, 0.02), "not shown", ""),
        ((0.02, 0.0095), "not shown", ""),
        ((0.0105, 0.0105), "undecided", "it would take more test examples"),
        ((0.0095, 0.0095), "undecided", "it would take more test examples"),
        ((0.001, 0.001), "shown", ""),
    ):
        network = make_claims(table({}, errors), 3000)[0]
        assert (network.status, network.note) == (status, note)


def test_one_draw_below_its_bound_refutes_when_its_test_examples_are_sure_of_it():
    draws = table({1: [0.095] + [0.4] * 9, **MANY}, [0.001] * 2)
    for num_test, status in ((3000, "undecided"), (10**6, "not shown")):
        assert shares(make_claims(draws, num_test))[0].status == status


def test_draws_above_the_bound_do_not_refute_it_by_the_luck_of_one_of_them():
    """Of 25 draws that all err on a little more than the bound, the worst is often below it."""
    rng, refuted = np.random.default_rng(0), 0
    for _ in range(200):
        draws = rng.binomial(3000, 0.101, size=25) / 3000
        claims = make_claims(table({1: draws.tolist(), **MANY}, [0.001] * 2), 3000)
        refuted += shares(claims)[0].status == "not shown"
    assert refuted / 200 < 0.06


def test_draws_without_an_error_refute_nothing():
    claims = make_claims(table({1: [0.3, 0.28, np.nan], **MANY}, [0.001] * 2), 3000)
    assert shares(claims)[0].status == "undecided"


def test_enough_draws_take_no_more_of_them():
    errors = [0.101 + 1e-6 * draw for draw in range(ENOUGH)]
    (claim,) = shares(make_claims(table({1: errors, **MANY}, [0.001] * 2), 3000))
    assert (claim.status, claim.note) == ("undecided", "it would take more test examples")


def test_a_number_of_patches_of_which_nothing_is_left_is_not_run():
    planned = [{"learner": "network", "k": k, "m": 1, "seed": s} for k in (9, 25) for s in (0, 1)]
    claims = make_claims(table({}, [0.001, 0.0012]), 3000, planned)
    status = {claim.item: claim.status for claim in claims}
    assert status["the network's test error, k = 9"] == "shown"
    assert status["the network's test error, k = 25"] == "not run"


def test_kernels_of_which_nothing_is_left_are_not_run():
    fine = table({1: [0.3, 0.31], **MANY}, [0.001] * 2)
    planned = [{"learner": "kernel", "k": 9, "m": m, "seed": s} for m in (1, 2) for s in (0, 1)]
    *_, mean, share, _, _ = make_claims(fine, 3000, planned)
    assert (mean.status, share.status) == ("not run", "not run")
    assert share.item.endswith("m = 2") and "2 of 2 runs have no result" in share.note


def test_one_network_next_to_its_bound_is_enough_to_take_more_test_examples():
    errors = table({}, [0.0005, 0.0085])
    for num_test, status in ((3000, "undecided"), (10**6, "shown")):
        assert make_claims(errors, num_test)[0].status == status


def test_errors_are_told_to_four_digits_and_the_network_s_to_five():
    errors = table({1: [0.30001, 0.30003], 2: [0.05, 0.04222], **MANY}, [0.001234, 0.001238])
    kernel, _, refuted, _, network, _ = make_claims(errors, 10**6)
    assert (kernel.ours, refuted.ours, network.ours) == (0.3, 0.0461, 0.00124)


def test_a_linear_classifier_s_examples_count_once_a_seed():
    """Of 300 seeds' 1,000 examples each: REACH errors of 300,000 (and four) are 0.0018."""
    claim = make_claims(table({}, [0.001] * 2, [0.492] * 300), 1000)[-1]
    assert claim.low == pytest.approx(0.492 - 1.96 * 0.5 / 300_000**0.5, abs=1e-4)


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
