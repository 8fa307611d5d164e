"""Exponents of stability, fitted and judged: what the thesis says of them follows the numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from lsa_jax.experiments.stability import experiment
from lsa_jax.experiments.stability.claims import make_claims
from lsa_jax.experiments.stability.conditions import FITTED, has_fitted
from lsa_jax.experiments.stability.connectivity import connectivity_drops
from lsa_jax.experiments.stability.fit_table import fit_all
from lsa_jax.experiments.stability.fits import fit_decay, fit_power, subtract_exponents
from lsa_jax.experiments.stability.regions import region_claims
from lsa_jax.reporting.intervals import difference_error


def test_the_fit_recovers_a_known_exponent():
    m, rng = np.array([800.0, 1600, 3200, 6400]), np.random.default_rng(0)
    np.testing.assert_allclose(fit_power(m, 3 * m**-1.1), (3, -1.1), rtol=1e-6)
    # Uniform below the curve: maxima of many come close to it.
    samples = [7 * n**-0.8 * rng.uniform(size=400) for n in m]
    fit = fit_decay(m, samples, 50)
    assert fit.low <= fit.exponent <= fit.high and fit.high - fit.low < 0.1
    np.testing.assert_allclose([fit.exponent, fit.mean_exponent], -0.8, atol=0.06)
    assert fit_power(m, np.array([1.0, 0.5, 0.0, 0.1])) is None
    # One pair of a size is no sample: there is a curve, and no interval.
    alone = fit_decay(m, [7 * n ** np.array([-0.8]) for n in m], 50)
    np.testing.assert_allclose(alone.exponent, -0.8, rtol=1e-6)
    assert np.isnan([alone.low, alone.high]).all()
    assert fit_power(m[:2], m[:2]) is None


def test_the_curve_is_the_least_squares_one_in_the_quantity_itself_not_on_logarithmic_axes():
    """Off a power law: both derivatives of the sum of squares vanish there, and only there."""
    m, values = np.array([800.0, 1600, 3200, 6400]), np.array([1.0, 0.7, 0.2, 0.15])
    factor, exponent = fit_power(m, values)
    residual, power = values - factor * m**exponent, m**exponent
    assert abs(residual @ power) < 1e-5 * np.linalg.norm(values) * np.linalg.norm(power)
    slope = factor * power * np.log(m / 800)
    assert abs(residual @ slope) < 1e-5 * np.linalg.norm(values) * np.linalg.norm(slope)
    on_logarithms = np.polyfit(np.log(m), np.log(values), 1)[0]
    assert exponent > on_logarithms + 0.05
    samples = [value * np.array([0.5, 1.0, 0.1 * place]) for place, value in enumerate(values)]
    fit = fit_decay(m, samples, 5)
    means = np.mean(samples, axis=1)
    assert (fit.factor, fit.exponent) == (factor, exponent)
    assert fit.log_slope == pytest.approx(on_logarithms)
    assert fit.mean_exponent == fit_power(m, means)[1] != fit.exponent


def test_a_difference_of_exponents_is_bootstrapped_on_the_same_pairs():
    m, rng = np.array([100.0, 200, 400]), np.random.default_rng(0)
    samples = [rng.lognormal(size=40) / n for n in m]
    fit = fit_decay(m, samples, 50)
    # The same fluctuations about another power: what they do to both exponents is nearly the same.
    steeper = fit_decay(m, [s * n**-0.1 for s, n in zip(samples, m, strict=True)], 50)
    difference, low, high = subtract_exponents(fit, steeper)
    assert low <= difference <= high and abs(difference - 0.1) < 0.05
    assert fit.high - fit.low > 5 * (high - low)


def draw_pairs_table(sizes, exponents, *, step=8, num_pairs=40):
    rng = np.random.default_rng(0)
    rows = [
        {name: factor * m**-1.0 for name in experiment.MEASURES[:6]}
        | {name: factor * m**b for name, b in exponents.items()}
        | {"m": m, "step": step}
        for m in sizes
        for factor in rng.uniform(0.9, 1, num_pairs)
    ]
    curve = {"learner": "logistic", "perturbation": "swap", "seed": 0, "train_error": 0.0}
    return pd.DataFrame(rows).assign(**curve)


@pytest.fixture
def networks(make):
    """Returns a function of fields to a configuration of networks."""
    return lambda **fields: make(
        report_step=8, learner="resnet", sweep__learner=("resnet",), **fields
    )[0]


def test_what_the_thesis_left_open_is_measured_whatever_comes_out(make):
    config, _ = make(report_step=8)
    for exponent, words in ((-0.5, "slower in 1 of 1"), (-1.5, "slower in 0 of 1")):
        pairs = draw_pairs_table((100, 200, 400), {"stability": exponent})
        (claim,) = make_claims(config, fit_all(pairs, 20), pd.DataFrame())
        assert (claim.status, claim.paper) == ("measured", "left open")
        assert words in claim.ours and f"difference {exponent + 1:.2f} (" in claim.ours


A1_SIZES = np.array([1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 50_000])


@pytest.fixture
def a1(make):
    """Returns a function of pairs and fields to their claims of regions."""

    def claims_of(pairs, **fields):
        axes = {"sweep__m": tuple(map(int, A1_SIZES)), "fit__resamples": 50}
        return region_claims(make(paper="figA_1", **axes | fields)[0], pairs)

    return claims_of


def two_rates(below, above=-0.3, num_pairs=20):
    pairs = draw_pairs_table(A1_SIZES, {}, num_pairs=num_pairs)
    rate = np.where(pairs["m"] < 15_000, below, above)
    pairs["loss_gap"] *= pairs["m"] * (pairs["m"] / 15_000) ** rate
    return pairs.assign(learner="resnet")


@pytest.mark.parametrize(
    ("below", "above", "status"),
    [
        (-0.9, -0.3, "shown"),
        (-0.3, -0.9, "shown"),
        (-0.3, -0.3, "not shown"),
        (-0.9, 0.3, "undecided"),
        (0.3, 0.9, "undecided"),
        (0.3, -0.9, "undecided"),
    ],
)
def test_figure_a1_asks_whether_the_loss_gap_falls_at_another_rate_below_its_range(
    a1, below, above, status
):
    (claim,) = a1(two_rates(below, above))
    assert claim.status == status
    note = "the loss gap is not shown to fall in both ranges"
    assert claim.note == (note if status == "undecided" else "")
    if status == "shown":
        assert claim.low < below - above < claim.high


def test_the_interval_of_two_rates_is_that_of_both(a1):
    pairs = two_rates(-0.9)
    (claim,) = a1(pairs)
    below, above = (
        fit_decay_of(pairs[inside]) for inside in (pairs["m"] < 15_000, pairs["m"] > 14_999)
    )
    reach = np.hypot(below.high - below.exponent, above.high - above.exponent)
    expected = below.exponent - above.exponent + reach * np.r_[-1, 1]
    np.testing.assert_allclose((claim.low, claim.high), expected)


def fit_decay_of(pairs):
    found = [(m, part.to_numpy()) for m, part in pairs.groupby("m")["loss_gap"]]
    return fit_decay(np.array([m for m, _ in found], float), [values for _, values in found], 50)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (
            lambda pairs: pairs.assign(train_error=0.02 * (pairs["m"] == 50_000)),
            "not fitted: a training accuracy of 0.98 at m = 50,000",
        ),
        (lambda pairs: pairs[pairs["m"] > 1000], "7 of 8 sizes"),
        (lambda pairs: pairs.drop_duplicates("m"), "1 of 2 pairs of a size"),
        (lambda pairs: pairs.groupby("m").head(3), "it would take 4 pairs a size"),
        (
            lambda pairs: pairs.assign(loss_gap=pairs.groupby("m")["loss_gap"].transform("max")),
            "all pairs of m = 1,000 are equal",
        ),
        (lambda pairs: pairs.assign(loss_gap=-pairs["loss_gap"]), "no power law in trial 0"),
    ],
)
def test_regions_of_runs_that_say_nothing_show_nothing(a1, change, note):
    for below in (-0.9, -0.3):
        (claim,) = a1(change(two_rates(below)))
        assert claim.status == "undecided" and note in claim.note


def test_a_range_of_two_sizes_has_no_rate(a1):
    pairs = two_rates(-0.9)
    for some in (pairs[pairs["m"] < 30_000], pairs[pairs["m"] > 2000]):
        (claim,) = a1(some, sweep__m=tuple(sorted(set(some["m"]))))
        assert (claim.status, claim.note) == ("not run", "a rate takes 3 sizes on either side")


def test_regions_of_several_trials_are_students_t_of_the_difference(a1):
    trials = [
        two_rates(-0.9 + shift).assign(seed=seed) for seed, shift in enumerate((0, 0.02, 0.1))
    ]
    (claim,) = a1(pd.concat(trials), sweep__seed=(0, 1, 2))
    found = [
        fit_decay_of(t[t["m"] < 15_000]).exponent - fit_decay_of(t[t["m"] > 14_999]).exponent
        for t in trials
    ]
    reach = 4.303 * np.std(found, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(
        (claim.low, claim.high), np.mean(found) + reach * np.r_[-1, 1], rtol=1e-3
    )
    assert claim.status == "shown"
    (claim,) = a1(pd.concat(trials[:2]), sweep__seed=(0, 1, 2))
    assert (claim.status, claim.note) == ("undecided", "2 of 3 trials")
    (claim,) = a1(pd.concat([trials[0].assign(seed=k) for k in range(3)]), sweep__seed=(0, 1, 2))
    assert (claim.status, claim.note) == ("undecided", "trials are equal")


def fits_of(exponents, reach=0.01):
    """Returns fits of one trial; intervals of all exponents are of the same length."""
    row = {"learner": "resnet", "perturbation": "swap", "seed": 0, "step": 8, "pairs": 40}
    row |= {"sizes": 3, "train_accuracy": 1.0, "least_fitted": 12, "tied": np.nan}
    rows = []
    for name in experiment.MEASURES[:6]:
        exponent = exponents.get(name, np.nan)
        less = exponent - exponents.get("loss_gap", np.nan)
        ends = {"exponent": exponent, "low": exponent - reach, "high": exponent + reach}
        ends |= {"less_gap": less, "less_gap_low": less - reach, "less_gap_high": less + reach}
        rows.append({**row, "quantity": name, **ends})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("exponent", "status"),
    [(-0.17, "not shown"), (-0.09, "not shown"), (0.0, "undecided"), (0.02, "shown")],
)
def test_what_the_thesis_calls_decreases_elsewhere_is_one_in_2a(networks, exponent, status):
    config = networks(paper="2a")
    for gap, seen in ((-0.48, status), (0.0, status.replace("shown", "undecided"))):
        fits = fits_of({"stability": exponent, "loss_gap": gap})
        claims = make_claims(config, fits, pd.DataFrame())
        (claim,) = (claim for claim in claims if claim.paper == "does not decrease")
        assert claim.status == (seen if status == "shown" else status)


def test_exponents_are_the_thesis_where_all_of_their_interval_is_near_and_nearer_than_to_others(
    networks,
):
    config = networks(paper="1a")
    for exponent, reach, status in (
        (-0.18, 0.01, "shown"),
        (-0.18, 0.1, "undecided"),
        (-0.12, 0.01, "not shown"),  # nearer to the -0.09 of stability
    ):
        fits = fits_of({"loss_gap": exponent, "stability": -0.09}, reach)
        assert make_claims(config, fits, pd.DataFrame())[0].status == status


def test_exponents_of_few_pairs_are_undecided_and_missing_paths_count_as_not_run(networks):
    config = networks(paper="2b", connectivity__sizes=(12,))
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    claims = make_claims(config, fits, pd.DataFrame())
    found = [claim.status for claim in claims]
    assert found == ["shown"] * 3 + ["undecided"] * 2 + ["not run"] * 2
    assert [claim.note for claim in claims[3:5]] == ["no power law in trial 0"] * 2
    enough = make_claims(config, fits.assign(pairs=40), pd.DataFrame())
    assert [claim.status for claim in enough] == found
    few = make_claims(config, fits.assign(pairs=39), pd.DataFrame())
    assert [claim.status for claim in few[:3]] == ["shown", "undecided", "undecided"]
    assert few[1].note == "it would take 40 pairs a size"


@pytest.mark.parametrize(("exponent", "status"), [(0.1, "shown"), (-0.6, "not shown")])
def test_a_distance_explains_the_gap_where_it_falls_no_more_slowly(networks, exponent, status):
    config = networks(paper="1a")
    fits = fits_of({"loss_gap": -0.35, "distance": exponent, "normalized_distance": exponent})
    found = {claim.item: claim for claim in make_claims(config, fits, pd.DataFrame())}
    for name in ("distance", "normalised distance"):
        assert found[f"exponents of the {name} and of the loss gap"].status == status
        few = make_claims(config, fits.assign(pairs=4), pd.DataFrame())
        assert "shown" not in {claim.status for claim in few[3:]}


GOOD = {"loss_gap": -0.35, "stability": -0.17, "distance": 0.3, "normalized_distance": 0.2}


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"train_accuracy": 0.9899}, "not fitted: a training accuracy of 0.9899 at m = 12"),
        ({"train_accuracy": 0.5}, "not fitted: a training accuracy of 0.5 at m = 12"),
        ({"sizes": 2}, "2 of 3 sizes"),
        ({"pairs": 44}, "44 of 45 pairs of a size"),
        ({"tied": 12.0}, "all pairs of m = 12 are equal"),
    ],
)
def test_what_was_not_run_as_planned_shows_nothing_for_or_against_the_thesis(
    networks, change, note
):
    config = networks(paper="2b", sweep__m=(12, 13, 14), sweep__num_pairs=45)
    for exponents in (GOOD, {name: -3.0 for name in GOOD} | {"loss_gap": -1.0}):
        fits = fits_of(exponents).assign(pairs=45)
        before = make_claims(config, fits, pd.DataFrame())
        assert {claim.status for claim in before} <= {"shown", "not shown"}
        for claim in make_claims(config, fits.assign(**change), pd.DataFrame()):
            assert claim.status == "undecided" and note in claim.note


def test_means_of_single_precision_are_not_below_what_they_are_the_mean_of():
    in_single = np.array([0.992, 0.988], np.float32).mean(dtype=float)
    assert in_single < FITTED and has_fitted(in_single) and not has_fitted(FITTED - 1e-5)


def test_convex_learners_are_not_asked_to_fit(make):
    config, _ = make(paper="fig2_1", report_step=8)
    names = ("loss_gap", "stability", "distance", "error_gap")
    fits = fits_of(dict.fromkeys(names, -1.1) | {"error_gap": -0.82}).assign(learner="logistic")
    claims = make_claims(config, fits.assign(train_accuracy=0.7), pd.DataFrame())
    assert [claim.status for claim in claims] == ["shown"] * 5
    only = make(report_step=8, learner="resnet", sweep__learner=("linearized_resnet", "resnet"))[0]
    both = pd.concat([fits.assign(learner=name, train_accuracy=0.7) for name in only.sweep.learner])
    convex, network = make_claims(only, both, pd.DataFrame())
    assert convex.note == "it would take no number of trials"  # its exponents are equal
    assert network.note == "not fitted: a training accuracy of 0.7 at m = 12"
    assert network.ours.endswith("not decided") and network.status == "measured"


def trials_of(*trials, seeds=(0, 1, 2)):
    return pd.concat([fits_of(b).assign(seed=k) for b, k in zip(trials, seeds, strict=True)])


def test_a_trial_without_a_power_law_is_named_and_not_left_out(networks):
    config = networks(paper="2b", sweep__seed=(0, 1, 2))
    near = [GOOD | {"loss_gap": -0.35 + k / 1000, "stability": -0.17 + k / 500} for k in range(3)]
    before = make_claims(config, trials_of(*near), pd.DataFrame())
    assert [claim.status for claim in before[:3]] == ["shown"] * 3
    lacking = near[:2] + [{name: b for name, b in near[2].items() if name != "stability"}]
    gap, stability, slower, *_ = make_claims(config, trials_of(*lacking), pd.DataFrame())
    assert gap.status == "shown"
    for claim in (stability, slower):
        assert (claim.status, claim.note) == ("undecided", "no power law in trial 2")
    for name in ("stability", "loss_gap"):
        none = [{q: b for q, b in trial.items() if q != name} for trial in near]
        claims = make_claims(config, trials_of(*none), pd.DataFrame())
        of = claims[:3:2] if name == "loss_gap" else claims[1:3]
        for claim in of:
            assert claim.status == "undecided" and "no power law in trial 0, 1, 2" in claim.note


def test_missing_and_equal_trials_show_nothing(networks):
    config = networks(paper="2b", sweep__seed=(0, 1, 2))
    near = [GOOD | {"loss_gap": -0.35 + k / 1000, "stability": -0.17 + k / 500} for k in range(2)]
    for claim in make_claims(config, trials_of(*near, seeds=(0, 2)), pd.DataFrame()):
        assert claim.status == "undecided" and "2 of 3 trials" in claim.note
    for claim in make_claims(config, trials_of(GOOD, GOOD, GOOD), pd.DataFrame()):
        assert claim.status == "undecided" and "trials are equal" in claim.note


def test_one_trial_with_fewer_sizes_or_equal_pairs_is_enough_to_show_nothing(networks):
    config = networks(paper="2b", sweep__m=(12, 13, 14), sweep__seed=(0, 1))
    fits = trials_of(GOOD, {name: b + 0.001 for name, b in GOOD.items()}, seeds=(0, 1))
    for column, values, note in (
        ("sizes", (3, 2), "2 of 3 sizes"),
        ("tied", (14.0, 12.0), "all pairs of m = 12 are equal"),
    ):
        changed = fits.assign(**{column: fits["seed"].map(dict(enumerate(values)))})
        for claim in make_claims(config, changed, pd.DataFrame()):
            assert claim.status == "undecided" and note in claim.note


def test_learners_of_which_nothing_was_run_are_named(make):
    learners = ("linearized_resnet", "resnet")
    config = make(report_step=8, learner="resnet", sweep__learner=learners)[0]
    missing, run = make_claims(config, fits_of(GOOD), pd.DataFrame())
    assert (missing.status, run.status) == ("not run", "measured")
    assert "linearized_resnet" in missing.item


def test_an_undecided_exponent_says_how_many_trials_it_would_take(networks):
    config = networks(paper="2b", sweep__seed=(0, 1, 2))
    gaps = (-0.30, -0.35, -0.40)
    fits = trials_of(*(GOOD | {"loss_gap": b, "stability": b + 0.04} for b in gaps))
    # Between -0.35 -+ 0.09: Student's t of the spread 0.05 reaches so far until there are 4 trials.
    claim = make_claims(config, fits, pd.DataFrame())[0]
    assert (claim.status, claim.note) == ("undecided", "it would take about 4 trials")
    # One trial: as if the half-length 0.1 were 1.96 deviations of trials.
    one = make_claims(networks(paper="2b"), fits_of(GOOD, 0.1), pd.DataFrame())
    needed = next(n for n in range(2, 99) if t.ppf(0.975, n - 1) * 0.1 / 1.96 / np.sqrt(n) < 0.09)
    assert one[0].note == (
        f"it would take about {needed} trials, if they differ as this one's interval says"
    )
    without = fits_of(GOOD).assign(low=np.nan, high=np.nan)
    claim = make_claims(networks(paper="2b"), without, pd.DataFrame())[0]
    assert claim.note == "no interval: subsamples of the pairs have no power law"


@pytest.mark.parametrize(
    ("gap", "stability", "status", "note"),
    [
        (-0.05, -0.05, "shown", ""),
        (0.05, 0.05, "undecided", "the loss gap is not shown to fall"),
        (-0.02, 0.005, "undecided", "the stability is not shown to fall"),
        (-0.02, 0.02, "undecided", "the stability is not shown to fall"),
        (-0.05, -0.3, "not shown", ""),
    ],
)
def test_to_fall_alike_both_have_to_fall(make, gap, stability, status, note):
    config, _ = make(paper="fig2_1", report_step=8)
    fits = fits_of({"loss_gap": gap, "stability": stability}).assign(learner="logistic")
    claim = make_claims(config, fits, pd.DataFrame())[-1]
    assert (claim.paper, claim.status) == ("fall alike", status)
    assert claim.note.startswith(note) and bool(claim.note) == bool(note)


@pytest.mark.parametrize(
    ("gap", "stability", "words"),
    [
        (-1.0, -0.5, "slower in 1 of 1: slower"),
        (-1.0, -1.5, "slower in 0 of 1: faster"),
        (-1.0, -0.995, "slower in 1 of 1: not decided"),
        (0.1, 0.5, "slower in 1 of 1: not decided"),
    ],
)
def test_what_is_left_open_says_what_its_interval_decides(make, gap, stability, words):
    config, _ = make(report_step=8)
    fits = fits_of({"loss_gap": gap, "stability": stability}).assign(learner="logistic")
    (claim,) = make_claims(config, fits, pd.DataFrame())
    assert claim.status == "measured" and claim.ours.endswith(words)
    assert bool(claim.note) == ("not decided" in words)
    (few,) = make_claims(config, fits.assign(pairs=39), pd.DataFrame())
    assert few.ours.endswith("not decided") and "it would take 40 pairs a size" in few.note


def paths_of(ends, falls):
    """Returns paths of a pair each, whose accuracies fall by so much half-way.

    Training accuracy is 1 at the models; outside no two paths are alike.
    """
    rows = [
        {"alpha": alpha, "train_accuracy": 1 - lost, "test_accuracy": ends - lost, "pair": pair}
        for pair, fall in enumerate(falls)
        for alpha, lost in ((0.0, 0.0), (0.5, fall), (1.0, 0.0), (2.0, 0.05 + pair / 100))
    ]
    fixed = {"learner": "resnet", "perturbation": "swap", "seed": 0, "step": 8, "m": 10_000}
    return pd.DataFrame(rows).assign(**fixed)


@pytest.mark.parametrize(
    ("paper", "falls", "status"),
    [
        ("1a", (0.001, 0.002), "shown"),
        ("1a", (0.04, 0.041), "not shown"),
        ("1a", (0.001, 0.05), "undecided"),
        ("2a", (0.03, 0.031), "shown"),
        ("2a", (0.0, 0.0), "undecided"),
        ("2b", (0.3, 0.31), "shown"),
        ("2b", (0.0, 0.0), "not shown"),
    ],
)
def test_falls_between_two_models_are_decided_by_paths_and_examples(networks, paper, falls, status):
    config = networks(paper=paper, connectivity__sizes=(12,))
    with config.unlocked():
        config.data.num_test = 10_000
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    found = make_claims(config, fits, paths_of(0.9, falls))[-2:]
    assert [claim.status for claim in found] == [status] * 2
    guessed = make_claims(config, fits, paths_of(0.1, [0.0, 0.0]))[-1]
    assert guessed.status != "shown"


def test_the_fall_between_two_models_is_below_the_lower_end():
    path = pd.DataFrame({"alpha": [-1.0, 0, 0.5, 1, 2], "accuracy": [0.0, 0.9, 0.7, 0.8, 0.1]})
    path = path.assign(learner="resnet", perturbation="swap", seed=0, step=1, m=2, pair=0)
    np.testing.assert_allclose(connectivity_drops(path, "accuracy"), [0.1])


@pytest.mark.parametrize(("num_train", "num_test"), [(None, None), (300, 200)])
def test_a_fall_has_the_error_of_its_examples_and_ends(networks, num_train, num_test):
    """Those of the sample for the training accuracy, the test set's for the other, or so many."""
    config = networks(paper="2b", connectivity__sizes=(12,))
    with config.unlocked():
        config.data.num_test = 5000
        config.connectivity.num_train, config.connectivity.num_test = num_train, num_test
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    train, test = make_claims(config, fits, paths_of(0.9, [0.2, 0.2]))[-2:]
    for claim, end, examples in (
        (train, 1.0, num_train or 10_000),
        (test, 0.9, num_test or 5000),
    ):
        reach = 1.96 * 100 * difference_error(end, end - 0.2, examples)
        assert claim.ours == pytest.approx(20) and claim.status == "shown"
        np.testing.assert_allclose((claim.low, claim.high), 20 + reach * np.r_[-1, 1], rtol=1e-3)


def test_falls_that_paths_do_not_decide_say_how_many_pairs_and_examples_would(networks):
    config = networks(paper="1a", connectivity__sizes=(12,))
    with config.unlocked():
        config.data.num_test = 500
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    train, test = make_claims(config, fits, paths_of(0.9, [0.01, 0.0102]))[-2:]
    assert train.status == "shown"
    assert test.note.endswith("times as many test examples") and "pairs" not in test.note
    train, test = make_claims(config, fits, paths_of(0.9, [0.01, 0.1]))[-2:]
    for claim, of in ((train, "examples of S"), (test, "test examples")):
        assert claim.status == "undecided" and "pairs" in claim.note and "seeds" not in claim.note
        assert ("times" not in claim.note) or of in claim.note


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda paths: paths[paths["pair"] == 0], "1 of 2 paths"),
        (lambda paths: paths.assign(test_accuracy=0.9, train_accuracy=1.0), "1 of 2 paths"),
        (lambda paths: paths[paths["alpha"] != 0.5], "no place between the models"),
        (lambda paths: paths[paths["alpha"] != 1.0], "or not both of them, on a path"),
        (
            lambda paths: paths.assign(train_accuracy=paths["train_accuracy"] - 0.011),
            "not fitted: a training accuracy of 0.989 at m = 10,000",
        ),
    ],
)
def test_paths_that_say_nothing_show_nothing(networks, change, note):
    config = networks(paper="1a", connectivity__sizes=(12,))
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    for falls in ([0.0, 0.0], [0.3, 0.31]):
        before = make_claims(config, fits, paths_of(0.9, falls))[-2:]
        assert "undecided" not in {claim.status for claim in before}
        for claim in make_claims(config, fits, change(paths_of(0.9, falls)))[-2:]:
            assert claim.status == "undecided" and note in claim.note


def test_paths_are_as_many_as_sizes_trials_and_pairs_ask_for(networks):
    sizes = {"connectivity__sizes": (12, 13), "sweep__m": (12, 13, 14), "sweep__seed": (0, 1)}
    config = networks(paper="1a", connectivity__pairs=3, sweep__num_pairs=5, **sizes)
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    assert "2 of 12 paths" in make_claims(config, fits, paths_of(0.9, [0.0, 0.0]))[-1].note


def test_paths_of_equal_means_are_not_equal(networks):
    config = networks(paper="1a", connectivity__sizes=(12,))
    first = paths_of(0.9, [0.0])
    mirrored = first.assign(pair=1, alpha=1 - first["alpha"])
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    note = make_claims(config, fits, pd.concat([first, mirrored]))[-1].note
    assert "of 2 paths" not in note


@pytest.mark.parametrize(("scatter", "status"), [(0.01, "not shown"), (1.0, "undecided")])
def test_one_rate_is_told_where_intervals_are_short(a1, scatter, status):
    rng = np.random.default_rng(0)
    pairs = draw_pairs_table(A1_SIZES, {}, num_pairs=60)
    pairs["loss_gap"] = pairs["m"] ** -0.5 * np.exp(scatter * rng.normal(size=len(pairs)))
    (claim,) = a1(pairs)
    assert claim.status == status
    words = "" if status == "not shown" else "it would take about"
    assert claim.note.startswith(words) and bool(claim.note) == bool(words)
