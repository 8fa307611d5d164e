"""Claims of the ResNet's experiments change where their thresholds are, and nowhere else."""

import math

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.resnet.hierarchical import claims, settings
from lsa_jax.experiments.resnet.hierarchical.alpha_claims import alpha_claims
from lsa_jax.experiments.resnet.hierarchical.sample_claims import sample_claims
from lsa_jax.experiments.resnet.minimal_norm.report import hand_claims, search_claims
from lsa_jax.sweep.variants import set_fields

# So many test examples that an error is as good as exact: within 0.03 %.
EXACT = 10**8
# k alpha^2 with k = 15 and alpha = 0.3, and the error of the answer 0.
SIGNAL, ZERO = 1.35, 16.35


def configure(**fields):
    axes = {
        "sweep.series": (("3resnet", "all"), ("3resnet", "hidden")),
        "sweep.baselines": (("3layer", "all"),),
        "sweep.beta": (1.0, 0.2),
    }
    return set_fields(settings.default_config(), {"d": 30, "num_test": EXACT} | axes | fields)


def row(net, learner, error, **changes):
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15, "num_train": 500}
    task |= {"alpha": 0.3, "beta": 1.0, "width": 200, "seed": 0}
    return {**task, "net": net, "learner": learner, "test_error": error} | changes


def of_widths(errors, learner="all"):
    """Returns the ResNet's errors by width, the other learner and a network that does not learn."""
    other = {"all": "hidden", "hidden": "all"}[learner]
    rows = [row("3resnet", learner, error, width=width) for width, error in errors.items()]
    return pd.DataFrame([*rows, row("3resnet", other, 0.1), row("3layer", "all", 2.0)])


def test_sizes_of_the_signals():
    given = pd.Series(row("3resnet", "all", 1.0))
    assert claims.threshold(given) == pytest.approx(SIGNAL)
    assert claims.threshold(pd.Series(row("", "", 1.0, outputs=0))) == pytest.approx(SIGNAL)
    assert claims.answer_zero(given) == pytest.approx(ZERO)


def test_an_error_varies_as_a_mean_of_squares_of_the_test_examples():
    found = claims.errors_claim(
        "others", pd.Series([0.4]), num_test=200, series="x", bound=1.0, below=1.0
    )
    # sqrt(2 / 200) = 0.1 of itself, on a logarithmic scale.
    assert (found.low, found.high) == pytest.approx(
        (0.4 * np.exp(-0.196), 0.4 * np.exp(0.196)), rel=1e-3
    )
    assert found.status == "shown" and found.ours == 0.4


@pytest.mark.parametrize(("learner", "first"), [("all", 50), ("hidden", 200)])
def test_the_worst_of_the_widths_that_the_paper_speaks_of_has_half_of_the_signal(learner, first):
    place = {"all": 0, "hidden": 1}[learner]
    for errors, status in (
        ({first - 1: 9.0, first: 0.67}, "shown"),
        ({first: 0.68, 500: 0.1}, "not shown"),
        ({first: 0.1, 500: 0.68}, "not shown"),
    ):
        found = claims.width_claims(configure(), of_widths(errors, learner))
        assert found[place].status == status


@pytest.mark.parametrize(
    ("error", "status"),
    [(1.34, "not shown"), (1.36, "shown"), (8.17, "shown"), (8.18, "undecided")],
)
def test_others_do_not_learn_g_but_f(error, status):
    """Above k alpha^2 and, so that it says something, below half of the answer 0."""
    rows = of_widths({200: 0.1})
    rows.loc[rows["net"] == "3layer", "test_error"] = error
    assert claims.width_claims(configure(), rows)[2].status == status


@pytest.mark.parametrize(
    ("error", "status"),
    [(1.34, "not shown"), (1.36, "shown"), (3.89, "shown"), (3.91, "undecided")],
)
def test_below_alpha_nothing_is_learned_unless_it_diverged(error, status):
    """Twice the answer 0 is 2 k (alpha^2 + beta^2) = 3.9 at beta = 0.2."""
    rows = [row("3resnet", "all", e, beta=beta) for beta, e in ((1.0, 0.1), (0.2, error))]
    found = claims.beta_claims(configure(), pd.DataFrame(rows))
    # Where all betas learn, none tells anything of beta.
    tied = ("undecided", "everything that was tried learns")
    assert (found[0].status, found[0].note) == (tied if status == "not shown" else ("shown", ""))
    assert "(half of G(F): 0.675)" in found[0].item
    assert found[1].status == status


def test_signals_are_missed_by_kernels_from_a_half_on_and_base_comes_first():
    config = configure(
        **{"question": "epochs", "num_test": 10_000, "sweep.limits": (("2layer", "ntk_infinite"),)}
    )
    seen = {"base_epoch": 5, "composite_epoch": 6, "base_error": 0.1, "composite_error": 0.1}

    def found(seeds=((5, 6), (5, 7)), **kernel):
        rows = [
            row("3resnet", learner, 0.1, **seen | {"base_epoch": base, "composite_epoch": last})
            for learner in ("all", "hidden")
            for base, last in seeds
        ]
        missed = {"base_error": 0.49, "composite_error": 0.9} | kernel
        rows.append(row("2layer", "ntk_infinite", 9.0, **missed))
        result = claims.epoch_claims(config, pd.DataFrame(rows))
        return [claim.status for claim in result if claim.status != "not run"]

    later = ((5, 15), (5, 16))
    assert found(later) == ["shown"] * 3
    assert found(later, composite_error=0.5) == ["shown", "shown", "undecided"]
    # Its error is 2 / sqrt(10,000) = 0.02: 0.04 of it on either side.
    assert found(later, composite_error=0.53)[2] == "undecided"
    assert found(later, composite_error=0.55)[2] == "shown"
    assert found(later, composite_error=0.45)[2] == "not shown"
    assert found(later, base_error=0.5)[2] == "undecided"
    assert found(((5, 5), (5, 5)))[:2] == ["not shown"] * 2
    assert found(((5, 6), (5, np.nan)))[:2] == ["not shown"] * 2


def samples(kernel, network):
    rows = [row("none", "gaussian", e, num_train=n, seed=s) for s, n, e in kernel]
    rows += [row("3resnet", "all", e, num_train=n, seed=s) for s, n, e in network]
    return sample_claims(configure(), pd.DataFrame(rows))


def test_of_two_learners_that_get_there_the_one_with_fewer_examples_is_the_network():
    kernel = [(0, 100, 1.0), (0, 500, 0.68), (0, 1000, 0.67)]
    network = [(0, 100, 1.0), (0, 500, 0.67), (0, 1000, 0.01)]
    of_kernels, of_network = samples(kernel, network)
    assert (of_kernels.ours, of_network.ours, of_network.status) == ("1000", "500", "shown")
    as_many = [(0, 100, 1.0), (0, 500, 0.67)]
    assert samples(as_many, network)[1].status == "not shown"
    assert samples(network, kernel)[1].status == "not shown"


def test_seeds_that_differ_and_kernels_that_were_not_run_that_far_leave_it_undecided():
    kernel = [(0, 100, 1.0), (0, 500, 1.0)]
    assert samples(kernel, [(0, 500, 0.1), (1, 500, 0.1)])[1].status == "shown"
    differ = samples(kernel, [(0, 500, 0.01), (1, 500, 3.0)])[1]
    assert (differ.ours, differ.status) == ("not surely to N = 500", "undecided")
    short = samples(kernel[:1], [(0, 500, 0.1)])[1]
    assert (short.status, short.note) == ("undecided", "a kernel was run to N = 100 alone")
    # Below with 1,000; with 500, where the network is, it was not run.
    skipped = samples([(0, 100, 1.0), (0, 1000, 0.1)], [(0, 500, 0.1)])[1]
    assert skipped.status == "undecided"
    assert skipped.note == "at N = 1,000 in the place of 500 a kernel is not above the bound"
    failed = samples([(0, 100, 1.0), (0, 500, np.nan)], [(0, 500, 0.1)])[1]
    assert failed.status == "undecided"
    assert samples([(0, 100, 1.0), (0, 1000, 1.0)], [(0, 500, 0.1)])[1].status == "shown"
    between = samples([(0, 500, 0.6), (1, 500, 0.8)], [(0, 500, 0.1)])[1]
    assert between.status == "undecided" and between.note.startswith("at N = 500 it would take ")
    assert samples(kernel, [(0, 500, 0.68)])[1].status == "not shown"


def of_theorem(d, sizes, error=1.0):
    """Returns the claims on linear F and one product of four of its outputs, of one kernel."""
    task = {"d": d, "base_degree": 1, "composite_degree": 4, "outputs": 4}
    rows = [row("none", "gaussian", error, num_train=size, **task) for size in sizes]
    return sample_claims(configure(), pd.DataFrame(rows))


@pytest.mark.parametrize(("d", "most"), [(14, 1), (17, 2)])
def test_theorem_2_speaks_of_more_than_one_example(d, most):
    assert math.comb(d, 4) // 1000 == most
    found = of_theorem(d, (100,))
    assert len(found) == (2 if most == 1 else 5)


def test_items_of_theorem_2_name_the_examples_that_were_run_and_else_those_of_its_bound():
    assert math.comb(30, 4) // 1000 == 27
    ran, at_all = (of_theorem(30, sizes)[0] for sizes in ((10, 20, 28), (28,)))
    assert "N to 20," in ran.item
    assert at_all.status == "not run" and "N to 27," in at_all.item


def of_alphas(error, seeds=(0, 1, 2), sizes=(1000,)):
    """Returns the ResNet's errors as a function of (alpha, seed)."""
    rows = [
        row("3resnet", "all", error(alpha, seed), alpha=alpha, seed=seed, num_train=size)
        for alpha in (0.15, 0.3, 0.6)
        for seed in seeds
        for size in sizes
    ]
    config = configure(**{"sweep.alpha": (0.15, 0.3, 0.6), "sweep.num_train": sizes})
    return alpha_claims(config, pd.DataFrame(rows))


@pytest.mark.parametrize(("factor", "status"), [(0.99, "shown"), (1.01, "not shown")])
def test_an_error_of_order_alpha_to_the_fourth_is_below_it_at_every_alpha(factor, status):
    for worst in (0.15, 0.3, 0.6):
        found = of_alphas(lambda a, s, worst=worst: (factor if a == worst else 0.5) * a**4)
        assert (found[0].ours, found[0].status) == (pytest.approx(factor), status)
    assert "N = 1,000" in found[0].item and "alpha = 0.15, 0.3, 0.6" in found[0].item


def test_seeds_on_either_side_of_alpha_to_the_fourth_leave_it_undecided():
    found = of_alphas(lambda alpha, seed: alpha**4 * (0.5, 0.9, 1.5)[seed])
    assert found[0].status == "undecided" and found[0].ours == pytest.approx(0.9)


def test_what_is_left_of_g_is_the_error_over_that_of_not_knowing_it():
    found = of_alphas(lambda alpha, seed: 20 * alpha**4 * (1 + seed / 100))
    for claim, alpha in zip(found[1:4], (0.15, 0.3, 0.6), strict=True):
        assert claim.status == "measured" and f"alpha = {alpha:g}" in claim.item
        assert claim.ours == pytest.approx(20 * alpha**2 / 15 * 1.01)


def test_exponents_are_those_between_neighbouring_alphas():
    found = of_alphas(lambda alpha, seed: max(alpha, 0.3) ** (5 + seed / 10))[4:]
    assert [claim.status for claim in found] == ["measured"] * 2
    assert ["from 0.15 to 0.3" in claim.item for claim in found] == [True, False]
    assert [claim.ours for claim in found] == [0.0, 5.1]
    # Three slopes 0.1 apart, and test examples that tell an error to 0.014 %.
    half = 4.303 * 0.1 / np.sqrt(3)
    assert (found[1].low, found[1].high) == pytest.approx((5.1 - half, 5.1 + half), rel=1e-3)


def test_of_one_seed_the_test_examples_leave_an_error_of_the_exponent():
    """sqrt(2 / n) of the logarithm of either error, over log 2."""
    config = configure(**{"sweep.alpha": (0.3, 0.6), "num_test": 200, "num_train": 500})
    rows = [row("3resnet", "all", a**4, alpha=a) for a in (0.3, 0.6)]
    found = alpha_claims(config, pd.DataFrame(rows))[-1]
    half = 1.96 * 0.1 * np.sqrt(2) / np.log(2)
    assert (found.low, found.high) == pytest.approx((4 - half, 4 + half), rel=1e-3)


def test_each_n_has_its_claims_and_a_missing_alpha_none():
    found = of_alphas(lambda alpha, seed: alpha**4, sizes=(1000, 4000))
    assert ["N = 1,000" in claim.item for claim in found] == [True] * 6 + [False] * 6
    config = configure(**{"sweep.alpha": (0.15, 0.3)})
    rows = pd.DataFrame([row("3resnet", "all", 0.1, alpha=0.3, seed=seed) for seed in (0, 1)])
    found = [claim.status for claim in alpha_claims(config, rows)]
    assert found == ["not run", "not run", "measured", "not run"]


def test_other_series_and_widths_have_no_part_in_the_claims_of_alpha():
    alphas = (0.3, 0.6)
    fields = {"sweep.alpha": alphas, "sweep.width": (200, 500), "num_train": 500}
    rows = [
        row("3resnet", "all", 0.5 * a**4 * w / 200, alpha=a, width=w)
        for a in alphas
        for w in (200, 500)
    ]
    rows += [row("3layer", "all", 9.0, alpha=a) for a in alphas]
    found = alpha_claims(configure(**fields), pd.DataFrame(rows))
    assert [claim.item.endswith(", m = 200") for claim in (found[0], found[4])] == [True, False]
    assert [found[0].ours, found[4].ours] == [pytest.approx(0.5), pytest.approx(1.25)]
    assert [found[0].status, found[4].status] == ["shown", "not shown"]


def test_at_beta_equal_to_alpha_the_error_is_measured():
    config = configure(**{"sweep.beta": (1.0, 0.3, 0.2)})
    rows = [row("3resnet", "all", e, beta=b) for b, e in ((1.0, 0.1), (0.3, 1.0), (0.2, 2.0))]
    found = claims.beta_claims(config, pd.DataFrame(rows))
    assert [claim.status for claim in found] == ["shown", "measured", "shown"]
    assert found[1].ours == 1.0 and "beta = 0.3 = alpha" in found[1].item


def runs(train, test, norm):
    columns = {"train_error": train, "test_error": test, "relative_norm": norm}
    return pd.DataFrame({name: np.atleast_1d(values) for name, values in columns.items()})


@pytest.mark.parametrize(
    ("found", "statuses"),
    [
        (runs(0.12, 0.31, 19.5), ("shown", "shown")),
        (runs(0.12, 0.30, 19.3), ("not shown", "not shown")),
        (runs([0.12, 0.01], [0.31, 0.5], [19.5, 19.3]), ("shown", "not shown")),
        (runs([0.12, 0.13], [0.31, 0.5], [19.5, 9.0]), ("shown", "shown")),
        (runs([0.13, 0.2], [0.31, 0.5], [19.5, 19.5]), ("undecided", "undecided")),
    ],
)
def test_sgd_finds_no_error_of_0_3_and_no_norm_below_twice_the_one_made_by_hand(found, statuses):
    claims_of = search_claims(40, found)
    assert tuple(claim.status for claim in claims_of) == statuses
    assert [claim.paper for claim in claims_of] == ["0.69, above 0.3", "well above 9.7"]


def test_norms_by_hand_are_the_paper_s_up_to_a_twentieth():
    for factor, status in ((1.049, "shown"), (1.051, "not shown")):
        hand = pd.DataFrame(
            {
                "test_error": [0.12, 0.037, 0.011],
                "relative_norm": np.array([9.7, 12.5, 13.8]) * factor,
            }
        )
        assert [claim.status for claim in hand_claims(hand)] == [status] * 3
