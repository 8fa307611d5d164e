"""Made-up results of the ResNet's experiments show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.resnet.hierarchical import claims as hierarchical
from lsa_jax.experiments.resnet.hierarchical import settings
from lsa_jax.experiments.resnet.hierarchical.alpha_claims import alpha_claims
from lsa_jax.experiments.resnet.hierarchical.sample_claims import sample_claims
from lsa_jax.experiments.resnet.minimal_norm.report import hand_claims, search_claims
from lsa_jax.sweep.variants import set_fields

SERIES = (("3resnet", "all"), ("3resnet", "hidden"))
OTHERS = (("3layer", "all"), ("2layer", "hidden"))
# k alpha^2, and the error of the answer 0.
SIGNAL, ZERO = 15 * 0.09, 15 * 1.09


def configure(**fields):
    axes = {"sweep.series": SERIES, "sweep.baselines": OTHERS, "sweep.beta": (1.0, 0.5, 0.2, 0.0)}
    return set_fields(settings.default_config(), {"d": 30} | axes | fields)


def row(net, learner, error, seed=0, **changes):
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15, "num_train": 500}
    task |= {"alpha": 0.3, "beta": 1.0}
    return {**task, "net": net, "learner": learner, "test_error": error, "width": 200} | {
        "seed": seed,
        "least_error": error,
        **changes,
    }


def widths(error):
    rows = [row(*key, error(key, seed), seed) for key in SERIES + OTHERS for seed in range(3)]
    return pd.DataFrame(rows)


def test_figure_2_of_answers_0_equal_exchanged_or_noise(nothing_shown):
    config, rng = configure(), np.random.default_rng(0)
    for error in (
        lambda key, seed: ZERO,
        lambda key, seed: SIGNAL,
        lambda key, seed: 0.01,
        lambda key, seed: 50.0,
        lambda key, seed: 0.01 if key in OTHERS else 2.0,
        lambda key, seed: SIGNAL * np.exp(rng.normal()),
    ):
        for claims in (hierarchical.width_claims, hierarchical.net_claims):
            nothing_shown(claims(config, widths(error)))
        nothing_shown(hierarchical.early_claims(config, widths(error)))


def test_other_networks_that_answer_0_are_no_contrast():
    found = hierarchical.width_claims(
        configure(), widths(lambda key, seed: ZERO if key in OTHERS else 0.01)
    )
    assert [claim.status for claim in found] == ["shown"] * 2 + ["undecided"] * 2


def betas(error):
    betas = configure().sweep.beta
    return pd.DataFrame([row(*SERIES[0], error(b), s, beta=b) for b in betas for s in range(3)])


def test_figure_3_of_1_3_against_50_answers_0_equal_and_exchanged(nothing_shown):
    config = configure()
    for error in (
        lambda beta: 1.3 if beta > 0.3 else 50.0,
        lambda beta: 15 * (0.09 + beta**2),
        lambda beta: 0.01,
        lambda beta: 2.0,
        lambda beta: 2.0 if beta > 0.3 else 0.01,
    ):
        nothing_shown(hierarchical.beta_claims(config, betas(error)))


def test_theorem_1_of_answers_0_f_alone_constants_noise_and_what_begins_to_fall(nothing_shown):
    alphas, rng = (0.15, 0.3, 0.6), np.random.default_rng(0)
    config = configure(**{"question": "alpha", "sweep.alpha": alphas, "num_train": 500})
    for error in (
        lambda alpha: 15 * (1 + alpha**2),
        lambda alpha: 15 * alpha**2,
        lambda alpha: 0.05 * alpha**2,
        lambda alpha: 0.01,
        lambda alpha: alpha**-4,
        lambda alpha: 9.0 if alpha > 0.3 else 1e-4,
        lambda alpha: 0.1 * np.exp(3 * rng.normal()),
    ):
        rows = [row(*SERIES[0], error(a), s, alpha=a) for a in alphas for s in range(3)]
        nothing_shown(alpha_claims(config, pd.DataFrame(rows)))


def samples(kernel, network):
    rows = [row("none", "gaussian", e, num_train=n) for n, e in kernel.items()]
    rows += [row("3resnet", "all", e, num_train=n) for n, e in network.items()]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("kernel", "network"),
    [
        ({100: 9.0, 10_000: 9.0}, {100: 9.0, 10_000: 9.0}),
        ({100: 0.01, 10_000: 0.01}, {100: 0.01, 10_000: 0.01}),
        ({100: 0.01, 10_000: 0.01}, {100: 9.0, 10_000: 0.01}),
    ],
)
def test_kernels_that_need_many_where_the_network_does_too(kernel, network, nothing_shown):
    for task in ({}, {"base_degree": 1, "composite_degree": 8, "outputs": 8}):
        rows = samples(kernel, network).assign(**task)
        nothing_shown(sample_claims(configure(), rows))


def test_signals_that_nobody_learns_or_in_any_order(nothing_shown):
    config = configure(**{"question": "epochs"})
    keys = SERIES + OTHERS
    never = {"base_epoch": np.nan, "composite_epoch": np.nan}
    nothing = [row(*key, 9.0, **never, base_error=1.0, composite_error=1.0) for key in keys]
    nothing_shown(hierarchical.epoch_claims(config, pd.DataFrame(nothing)))
    noise = [
        row(*key, 0.1, seed, base_epoch=5 + seed, composite_epoch=7 - seed)
        | {"base_error": 0.1, "composite_error": 0.1}
        for key in keys
        for seed in range(3)
    ]
    nothing_shown(hierarchical.epoch_claims(config, pd.DataFrame(noise)))


def runs(train, test, norm):
    columns = {"train_error": train, "test_error": test, "relative_norm": norm}
    return pd.DataFrame({name: np.atleast_1d(values) for name, values in columns.items()})


def test_searches_and_constructions_with_errors_of_1_show_nothing(nothing_shown):
    nothing_shown(search_claims(40, runs(1.0, 1.0, 0.0)))
    nothing_shown(search_claims(40, runs([1.0, 0.9], [1.0, 1.1], [50.0, 60.0])))
    nothing_shown(search_claims(40, runs(0.1, 0.1, 9.7)))  # what is made by hand
    nothing_shown(hand_claims(runs(1.0, 1.0, 0.0)))
    nothing_shown(hand_claims(runs(0.0, 0.0, 40.0)))
