"""What a search on hierarchical targets tries, trains and keeps, beside made-up results."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax.experiments.resnet.hierarchical import experiment, settings, tasks
from lsa_jax.experiments.resnet.search import Rung, SearchResult
from lsa_jax.experiments.resnet.shallow import last_features, shallow
from lsa_jax.sweep.variants import set_fields

TINY = {
    "d": 8,
    "num_train": 20,
    "num_test": 10,
    "batch_size": 20,
    "epochs": 4,
    "fall_epoch": 2,
    "eval_every": 2,
    "watch_every": 2,
    "width": 6,
    "sweep.width": (6,),
    "sweep.seed": (0, 1),
    "sweep.series": (("3resnet", "all"),),
}
make = maker(settings, TINY)
GRID = {
    "search.learning_rates": (0.5, 0.25),
    "search.weight_decays": (0.0, 0.125, 0.0625),
    "search.kernel_learning_rates": (2.0,),
    "search.kernel_weight_decays": (1.0, 0.5),
}


def configure(**fields):
    return set_fields(settings.default_config(), TINY | {"sweep.seed": (0,)} | fields)


def test_every_rate_is_tried_with_every_decay_and_kernels_have_their_own():
    for learner, rates, decays in (
        ("all", (0.5, 0.25), (0.0, 0.125, 0.0625)),
        ("ntk", (2.0,), (1.0, 0.5)),
    ):
        found = experiment.candidates(configure(learner=learner, **GRID))
        pairs = zip(*(found[name].tolist() for name in found), strict=True)
        assert list(found) == ["learning_rate", "weight_decay"]
        assert list(pairs) == list(itertools.product(rates, decays))


def test_hopeless_is_so_many_times_the_mean_square_of_the_targets():
    fields = {"search.hopeless": 3.0, "search.rung_epochs": (1, 2), "search.rung_keep": (4, 2)}
    fields |= {"alpha": 0.5, "beta": 2.0, "batch_size": 64, "outputs": 3, "composite_degree": 3}
    plan = experiment.make_plan(configure(**fields))
    assert plan.hopeless == pytest.approx(3 * 3 * (2**2 + 0.5**2))
    assert plan.rungs == (Rung(1, 4), Rung(2, 2)) and plan.batch_size == 20  # of 20 examples
    task = tasks.make_task(configure(num_train=4000, num_test=10, **fields))
    squares = np.sum(np.square(np.asarray(task.train.targets)), axis=1)
    assert squares.mean() == pytest.approx(plan.hopeless / 3, rel=0.05)


def result(best, last=(0.75, 0.5, 0.25)):
    """Returns a search of three candidates of which the first was dropped after two epochs."""
    errors = np.array([[0.99, 0.98, 0.97], [0.9, 0.8, 0.7], [np.nan, *last[1:]]])
    return SearchResult(best, {}, [1, 2, 4], errors / 2, errors, np.array([2, 4, 4]), [], None)


def run_with(monkeypatch, tmp_path, found, **fields):
    """Returns outcomes of two seeds of a search that finds what is given, and what it was told."""
    told = []

    class Fake:
        def run(self, key, start, train, test, grid, *, checkpoint_dir, progress, measuring):
            told.append((start, train, checkpoint_dir))
            progress(0.5)
            return found

    monkeypatch.setattr(experiment, "make_search", lambda config, plan: Fake())
    rates = {"search__learning_rates": (0.5, 0.25, 0.125), "search__weight_decays": (0.1,)}
    _, points = make(**rates, **fields)
    fractions = []
    (group,) = experiment.groups(points)
    return experiment.run(group, None, tmp_path, fractions.append), told, fractions


def test_a_winner_is_told_with_its_last_errors_and_every_candidate_by_epoch(monkeypatch, tmp_path):
    outcomes, told, fractions = run_with(monkeypatch, tmp_path, result(2), question="width")
    assert fractions == [0.25, 0.75] and len(outcomes) == 2
    assert len({directory for _, _, directory in told}) == 2
    assert not np.array_equal(told[0][1].inputs, told[1][1].inputs)
    for seed, outcome in enumerate(outcomes):
        expected = {"test_error": 0.25, "train_error": 0.125, "learning_rate": 0.125}
        expected |= {"weight_decay": 0.1, "candidates": 3, "candidates_finished": 2}
        expected |= {"seed": seed, "width": 6, "net": "3resnet", "learner": "all"}
        assert outcome.metrics.items() >= expected.items()
        rows = [
            (r["epoch"], r["learning_rate"], r["test_error"], r["best"]) for r in outcome.history
        ]
        assert rows == [
            (1, 0.5, 0.99, False),
            (1, 0.25, 0.98, False),
            (1, 0.125, 0.97, True),
            (2, 0.5, 0.9, False),
            (2, 0.25, 0.8, False),
            (2, 0.125, 0.7, True),
            (4, 0.25, 0.5, False),
            (4, 0.125, 0.25, True),
        ]
        assert all(r["train_error"] == r["test_error"] / 2 for r in outcome.history)


def test_a_search_without_a_winner_has_failed(monkeypatch, tmp_path):
    outcomes, _, _ = run_with(monkeypatch, tmp_path, result(None), question="width")
    assert {outcome.status for outcome in outcomes} == {"failed"}
    assert "none of 3 candidates reached epoch 4" in outcomes[0].message
    assert len(outcomes[0].history) == 8


def test_a_signal_is_learned_at_the_first_epoch_that_misses_no_more_than_half(
    monkeypatch, tmp_path
):
    watched = [
        {"epoch": 2 * place, "base_error": base, "composite_error": composite}
        for place, (base, composite) in enumerate([(1, 1), (0.6, 0.9), (0.5, 0.8), (0.4, 0.7)])
    ]
    seen = []
    monkeypatch.setattr(experiment, "watch", lambda *given: seen.append(given) or watched)
    outcomes, _, _ = run_with(monkeypatch, tmp_path, result(1), question="epochs")
    for outcome in outcomes:
        expected = {"base_epoch": 4, "composite_epoch": None, "base_error": 0.4}
        expected |= {"composite_error": 0.7, "test_error": 0.5, "learning_rate": 0.25}
        assert outcome.metrics.items() >= expected.items() and "epoch" not in outcome.metrics
        assert outcome.history == watched
    *_, winner = seen[0]
    assert {name: values.tolist() for name, values in winner.items()} == {
        "learning_rate": [0.25],
        "weight_decay": [np.float32(0.1)],
    }


def test_targets_are_parities_or_smooth(key):
    x = jax.random.rademacher(key, (50, 8), jnp.float32)
    parity, smooth = (
        np.asarray(tasks.make_hierarchy(configure(target=target)).base(x))
        for target in ("parity", "smooth")
    )
    assert set(np.unique(np.abs(parity))) == {1.0} and len(np.unique(np.abs(smooth))) > 2


def test_a_linearised_network_is_multiplied_as_the_network_itself():
    """No product of matrices asks for more than the precision that the device has by default."""
    config = configure(learner="ntk")
    apply, _ = tasks.trained_function(config)
    start, _, (initial, test) = tasks.make_training(config, tasks.make_task(config))
    program = str(jax.make_jaxpr(apply)(start, (initial, test.inputs)))
    assert "dot_general" in program and "HIGH" not in program


@pytest.mark.parametrize(("init", "variance"), [("fan_in", 1 / 8), ("width", 1 / 400)])
def test_a_network_starts_as_its_settings_say(init, variance):
    params = tasks.initial_params(configure(init=init, width=400))
    assert float(jnp.var(params["w"])) == pytest.approx(variance, rel=0.1)


def test_learners_train_what_they_are_named_after(key):
    """All but the output layer; the output layer; and f at the start plus its derivative."""
    fields = {"net": "3layer"}
    config = {
        learner: configure(learner=learner, **fields)
        for learner in ("all", "hidden", "last", "ntk")
    }
    functions = {name: tasks.trained_function(of) for name, of in config.items()}
    frozen = {name: kept for name, (_, kept) in functions.items()}
    assert frozen == {"all": (), "hidden": ("a",), "last": (), "ntk": ()}
    task = tasks.make_task(config["all"])
    x, _ = task.train
    initial = tasks.initial_params(config["all"])
    apply = shallow("3layer", 6, initial["a"].shape[1]).apply
    moved = jax.tree.map(lambda p: p + 0.1 * jax.random.normal(key, p.shape), initial)
    for name in ("all", "hidden"):
        start, train, _ = tasks.make_training(config[name], task)
        assert set(start) == set(initial) and train.inputs is x
        np.testing.assert_allclose(functions[name][0](moved, x), apply(moved, x), rtol=1e-5)
    start, train, _ = tasks.make_training(config["last"], task)
    np.testing.assert_array_equal(start["a"], initial["a"])
    features = last_features("3layer", initial, x) @ moved["a"]
    assert list(start) == ["a"]
    found = functions["last"][0]({"a": moved["a"]}, train.inputs)
    np.testing.assert_allclose(found, features, rtol=1e-4, atol=1e-5)
    start, train, _ = tasks.make_training(config["ntk"], task)
    batch = tasks.fetch_linearized(train, None, jnp.arange(20), jnp.int32(0))
    step = jax.tree.map(jnp.subtract, moved, start)
    values, slopes = jax.jvp(lambda p: apply(p, x), (start,), (step,))
    found = functions["ntk"][0](moved, batch.inputs)
    np.testing.assert_allclose(found, values + slopes, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(batch.targets, task.train.targets)
