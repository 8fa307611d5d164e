"""Made-up results of LSA's other experiments show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.activation_sparsity import report as sparsity
from lsa_jax.experiments.lsa.kernel_bound import claims as kernel_bound
from lsa_jax.experiments.lsa.lemmas import report as lemmas
from lsa_jax.experiments.lsa.signal_dynamics import report as dynamics
from lsa_jax.experiments.lsa.signal_scaling import report as scaling


def activity(changes, accuracy=0.9, seeds=0):
    """Returns the claims on activity that changes by so much, by seed."""
    rows = [
        {"noise": 0.0, "seed": seed, "epoch": epoch, "layer": layer, "active_percent": 50 + of}
        for layer in ("mean of the layers", "ReLU 1")
        for seed, change in enumerate(changes)
        for epoch, of in ((1, 0.0), (2, change))
    ]
    results = pd.DataFrame({"noise": 0.0, "seed": range(len(changes)), "status": "ok"})
    planned = [{"noise": 0.0, "seed": seed} for seed in range(seeds)]
    return sparsity.make_claims(pd.DataFrame(rows), results.assign(test_accuracy=accuracy), planned)


def test_activity_that_falls_by_noise_or_of_a_network_that_guesses_shows_nothing(nothing_shown):
    nothing_shown(activity([-5.0, 4.0, -3.0, 3.0, -1.0]))
    nothing_shown(activity([-0.1]))
    nothing_shown(activity([0.0, 0.0, 0.0]))
    nothing_shown(activity([5.0, 5.5, 6.0]))
    nothing_shown(activity([-5.0, -5.5, -6.0], accuracy=0.1))
    assert {claim.status for claim in activity([-5.0, -5.5, -6.0], seeds=3)} == {"shown"}
    nothing_shown(activity([-5.0, -5.0, -5.0]))
    nothing_shown(activity([-5.0, -5.5, -6.0], seeds=4))


def errors(kernel, network, linear=(), many=(0.0, 0.001), num_test=3000, seeds=0):
    """Returns the claims on kernels of one filter, beside kernels of many, by seed."""
    learners = (("kernel", 1, kernel), ("kernel", 64, many), ("network", 1, network))
    rows = [
        {"learner": learner, "k": 100, "m": m, "seed": s, "test_error": error, "status": "ok"}
        for learner, m, found in (*learners, ("linear", 1, linear))
        for s, error in enumerate(found)
    ]
    names = {"kernel": {"m": 1}, "network": {}, "linear": {}}
    planned = [
        {"learner": name, "k": 100, **at, "seed": s}
        for name, at in names.items()
        for s in range(seeds)
    ]
    return kernel_bound.make_claims(pd.DataFrame(rows), num_test, planned)


# As many draws as theorem 2's probability takes.
DRAWS = [0.4 + 1e-6 * draw for draw in range(3688)]


def test_kernels_whose_search_fails_at_every_size_and_equal_draws_show_nothing():
    fine = (DRAWS, [0.001] * 3, [0.506, 0.507, 0.505])
    found = errors(*fine, seeds=3)
    assert [claim.status for claim in found] == ["measured"] + ["shown"] * 3
    for claim in errors(*fine, seeds=len(DRAWS) + 1)[1:]:
        assert claim.status == "undecided" and "3689 runs have no result" in claim.note
    for claim in errors(*fine, num_test=29)[1:]:
        assert claim.status == "undecided" and "29 test examples are too few" in claim.note
    for many in ([0.4, 0.41, 0.39], [0.099, 0.11], []):
        found = errors(*fine, many=many)[1]
        assert found.status == "undecided" and "no kernel of more filters" in found.note
    for equal in ([0.5] * 3, [0.4] * len(DRAWS), [0.4]):
        assert errors(equal, *fine[1:])[1].status == "undecided"
    for equal in ([0.5] * 3, [0.5]):
        assert errors(*fine[:2], equal)[-1].status == "undecided"
    assert errors(fine[0], [0.001], fine[2])[2].status == "undecided"


def test_a_handful_of_draws_shows_no_probability_of_one_in_a_thousand(nothing_shown):
    for draws in (DRAWS[:3], DRAWS[:8], DRAWS[:20], DRAWS[:-1]):
        _, share, *_ = errors(draws, [0.001] * 3)
        nothing_shown([share])
        assert share.note == "it would take 3,688 draws"


@pytest.mark.parametrize(
    ("kernel", "network"),
    [
        ([0.5] * 5, [0.5] * 5),  # nothing is learned
        ([0.05] * 5, [0.05] * 5),  # equal
        ([0.001] * 5, [0.3] * 5),  # exchanged
        ([0.08, 0.12, 0.1, 0.11, 0.09], [0.005, 0.02, 0.01, 0.015, 0.0]),  # noise
        ([0.3] * 5, []),
    ],
)
def test_kernels_that_fail_where_the_network_does_show_nothing(kernel, network, nothing_shown):
    nothing_shown(errors(np.array(kernel), np.array(network)))


@pytest.mark.parametrize(
    "kernel",
    [
        [0.15, 0.1, 0.3],  # they spread as much as they err
        [0.3] * 50 + [0.05],  # one draw such as nearly none should be
        [*DRAWS, 0.05],
        [0.3],  # says nothing of other draws
    ],
)
def test_kernels_that_may_err_less_elsewhere_show_nothing(kernel):
    mean, share, *_ = errors(np.array(kernel), np.array([0.001] * 5))
    assert mean.item.startswith("mean test error over draws") and mean.status == "measured"
    assert share.item.startswith("share of draws") and share.status != "shown"


@pytest.mark.parametrize(
    ("linear", "network"),
    [
        ([0.5] * 5, [0.5] * 5),  # nobody learns
        ([0.442] * 5, [0.5] * 5),
        ([0.001] * 5, [0.5] * 5),  # exchanged
        ([0.5, 0.4, 0.52, 0.48, 0.55], [0.5] * 5),  # noise
    ],
)
def test_a_linear_classifier_fails_no_more_than_a_network_does(linear, network, nothing_shown):
    nothing_shown(errors([], network, linear))


@pytest.mark.parametrize("linear", [[0.442] * 5, [0.48, 0.5, 0.46, 0.52, 0.49], [0.0] * 5])
def test_a_linear_classifier_that_is_better_than_it_should_shows_nothing(linear):
    found = errors([], [0.001] * 5, linear)
    assert found[-1].item.startswith("error of the linear") and found[-1].status != "shown"


def lemma_rows(**columns):
    fine = {"status": "ok", "k": [2.0**i for i in range(6, 16)], "reached": True}
    names = ["lemma1_least", "lemma1_most", "lemma1_proof_least", "lemma1_proof_most"]
    names += ["lemma2_least", "lemma2_ratio"]
    names += ["lemma3_least", "onset_ratio", "bias_ratio"]
    return pd.DataFrame(fine | dict.fromkeys(names, 0.0) | columns)


def test_a_flow_that_stands_still_or_is_noise_shows_no_lemma(nothing_shown):
    nothing_shown(lemmas.make_claims(lemma_rows(reached=False)))
    nothing_shown(lemmas.make_claims(lemma_rows(reached=False, lemma1_least=1.0, lemma1_most=1.0)))
    rng = np.random.default_rng(0)
    noise = {
        name: rng.normal(size=10) for name in lemma_rows() if name.startswith(("lem", "o", "b"))
    }
    nothing_shown(lemmas.make_claims(lemma_rows(**noise)))


def test_lemma_1_does_not_hold_for_the_proof_where_it_holds_at_the_start_alone():
    # Its component along w* is as it was at the start up to the small H, and vanishes thereafter.
    fine = {"lemma1_least": 0.49, "lemma1_most": 0.5, "lemma1_proof_most": 0.5}
    for least in (0.0, -1e-12, 0.01):
        claims = lemmas.make_claims(lemma_rows(lemma1_proof_least=least, **fine))
        found = {c.item: c.status for c in claims if "lemma 1, H = 2 C2:" in c.item}
        assert list(found.values())[1] == "not shown"
        assert (list(found.values())[0] == "shown") == (least > 0)


def test_lemma_3_is_not_judged_where_it_holds_alone():
    # Its derivative is positive at the one k at which the error is reached, and nowhere else.
    k = lemma_rows()["k"]
    alone = lemma_rows(reached=k == k.max(), lemma3_least=np.where(k == k.max(), 1.0, -1.0))
    found = {c.item: c.status for c in lemmas.make_claims(alone) if c.item.startswith("lemma 3")}
    assert set(found.values()) == {"not shown"}


def run(seed, accuracy, w=None, b=None, ratio=None):
    steps = np.arange(20)
    flat = np.zeros(20)
    return pd.DataFrame(
        {
            "seed": seed,
            "status": "ok",
            "step": steps,
            "w_dot_wstar": flat if w is None else w,
            "b": flat if b is None else b,
            "ratio": flat if ratio is None else ratio,
            "test_accuracy": accuracy,
        }
    )


def test_a_filter_that_learns_nothing_shows_nothing_of_figure_3(nothing_shown):
    rng, steps = np.random.default_rng(1), np.arange(20)
    constant = [run(seed, np.full(20, 0.5), w=np.ones(20), b=-np.ones(20)) for seed in range(3)]
    nothing_shown(dynamics.make_claims(pd.concat(constant), 5000))
    grows = [run(s, np.full(20, 0.5), w=1.0 + steps, b=-1.0 - steps, ratio=steps) for s in range(3)]
    nothing_shown(dynamics.make_claims(pd.concat(grows), 5000))
    noise = [
        run(seed, rng.binomial(5000, 0.5, 20) / 5000, *rng.normal(size=(3, 20)))
        for seed in range(5)
    ]
    nothing_shown(dynamics.make_claims(pd.concat(noise), 5000))


def scaling_rows(steps, reached=True, differ=True):
    """Returns runs of minibatches: one column a k, one row a seed."""
    rows = [
        {"k": 4.0**place, "steps_taken": value, "reached": reached}
        | {"seed": seed, "test_error": 1e-3 * (1 + seed * differ)}
        for seed, own in enumerate(steps)
        for place, value in enumerate(own)
    ]
    return pd.DataFrame(rows).assign(learner="sgd", noise_scale=0.5, status="ok")


def test_runs_that_never_arrive_or_take_ever_longer_show_no_polynomial(nothing_shown):
    nothing_shown(scaling.make_claims(scaling_rows([[1000.0] * 5] * 3, reached=False)))
    exponential = [[10 * 2.0 ** (3 * place) for place in range(5)]] * 3
    growth = scaling.make_claims(scaling_rows(exponential))[1]
    assert growth.status == "not shown"
    rng = np.random.default_rng(2)
    noise = 100 * np.exp(2 * rng.normal(size=(4, 5)))
    assert scaling.make_claims(scaling_rows(noise))[1].status != "shown"


@pytest.mark.parametrize("seeds", [2, 3])
def test_growth_just_above_the_bound_is_seldom_shown_however_few_the_seeds(seeds):
    """An interval of 95 % may miss the exponent on one side in 2.5 % of the draws."""
    rng, exponents, shown, draws = np.random.default_rng(3), [0.2, 1.05], 0, 300
    course = np.exp(np.log(4) * np.cumsum([0, *exponents]))
    for _ in range(draws):
        steps = 100 * course * np.exp(0.2 * rng.normal(size=(seeds, 3)))
        shown += scaling.make_claims(scaling_rows(steps))[1].status == "shown"
    assert shown / draws < 0.04


def test_growth_that_steps_between_evaluations_could_make_is_not_shown():
    # Between 60 and 80 steps, and between 300 and 320: an exponent of 0.95 to 1.2 in k.
    found = scaling.make_claims(
        scaling_rows([[80.0, 320.0, 400.0], [80.0, 320.0, 401.0]]), within=20
    )[1]
    assert found.status == "undecided" and found.high > 1.2 > found.low
    assert found.note == "it would take evaluations more often"


def test_growth_of_equal_seeds_and_of_what_failed_runs_leave_shows_nothing(nothing_shown):
    polynomial = [[100.0, 200.0, 400.0]] * 3
    found = scaling.make_claims(scaling_rows(polynomial, differ=False))
    assert {(claim.status, claim.note) for claim in found} == {
        ("undecided", "all of 3 seeds are equal")
    }
    rows = scaling_rows(polynomial)
    planned = [
        {"learner": "sgd", "noise_scale": 0.5, "k": k, "seed": seed}
        for k in (1.0, 4.0, 16.0)
        for seed in range(3)
    ]
    assert {c.status for c in scaling.make_claims(rows, planned)} == {"shown"}
    found = scaling.make_claims(rows[:-1], planned)
    nothing_shown(found)
    assert "1 of 9 runs have no result: learner sgd" in found[0].note
    # Of another noise scale nothing is missing here.
    others = [point | {"noise_scale": 0.7} for point in planned]
    assert {c.status for c in scaling.make_claims(rows, planned + others)} == {"shown"}


def test_lemmas_of_two_sizes_and_of_what_failed_runs_leave_show_nothing(nothing_shown):
    names = ["lemma1_least", "lemma1_most", "lemma1_proof_least", "lemma1_proof_most"]
    rows = lemma_rows(**dict.fromkeys([*names, "lemma3_least"], 0.4), onset_ratio=1.0)
    rows = rows.assign(lemma2_ratio=1.0, bias_ratio=1.0)
    planned = [{"k": k} for k in rows["k"]]
    statuses = [claim.status for claim in lemmas.make_claims(rows, planned)]
    assert statuses == ["shown"] * 10 + ["measured"] * 3
    for some in (rows[:-1], rows.drop(index=4)):
        found = lemmas.make_claims(some, planned)
        nothing_shown(found)
        assert all("1 of 10 runs have no result" in claim.note for claim in found[:10])
    few = lemmas.make_claims(rows[-2:])
    nothing_shown(few)
    assert {claim.note for claim in few[:1]} == {"it would take 3 k"}
    assert {claim.status for claim in lemmas.make_claims(rows[-3:])[:3]} == {"shown"}
