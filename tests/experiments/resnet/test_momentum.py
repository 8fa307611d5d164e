"""When the rate of a search falls, and what momentum and decay do, in plain numbers."""

import jax
import ml_collections
import numpy as np
import pytest

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.resnet.momentum import momentum_search
from lsa_jax.experiments.resnet.search import Plan, Rung


def affine(params, inputs):
    return inputs @ params["w"] + params["b"]


def searched(grid, *, plan, num_train=10, targets=(1.0, 1.0), apply=affine, start=None, **options):
    """Returns what is found from w = 0 on equal examples of which any batch has the same gradient.

    Args:
        grid: learning rates and weight decays of the candidates.
        plan: of the search.
        num_train: examples.
        targets: of training and test examples.
        apply: the network.
        start: other parameters.
        **options: of `momentum_search`, and fields of its configuration.
    """
    fields = {"momentum": 0.0, "fall_epoch": 100, "num_train": num_train, "num_test": 5}
    fields |= {name: options.pop(name) for name in list(options) if name in fields}
    search = momentum_search(apply, plan, ml_collections.ConfigDict(fields), **options)
    start = start or {"w": np.zeros((1, 1), np.float32), "b": np.zeros((1, 1), np.float32)}
    data, test = (
        Dataset(np.ones((n, 1), np.float32), np.full((n, 1), target, np.float32))
        for n, target in zip((num_train, 5), targets, strict=True)
    )
    names = ("learning_rate", "weight_decay")
    columns = dict(zip(names, np.array(grid, np.float32).T, strict=True))
    return search.run(jax.random.key(0), start, data, test, columns)


PLAN = Plan(epochs=4, batch_size=4, eval_every=1, rungs=(), hopeless=1e3)


@pytest.mark.parametrize(("num_train", "steps"), [(10, 3), (8, 2)])
def test_the_rate_falls_to_a_tenth_after_so_many_whole_epochs(num_train, steps):
    """An epoch of 10 examples in batches of 4 has three steps, the last of which is smaller."""
    grid = [(0.3, 0.0), (0.1, 0.5)]
    found = searched(
        grid, plan=PLAN, num_train=num_train, fall_epoch=2, momentum=0.5, frozen=("b",)
    )
    for place, (rate, decay) in enumerate(grid):
        w, v, errors = 0.0, 0.0, []
        for step in range(4 * steps):
            v = 0.5 * v + (w - 1) + decay * w
            w -= (rate if step < 2 * steps else rate / 10) * v
            errors.append((w - 1) ** 2)
        expected = errors[steps - 1 :: steps]
        np.testing.assert_allclose(found.test_error[:, place], expected, rtol=1e-3, atol=1e-7)
        np.testing.assert_allclose(found.params["w"][place], [[w]], rtol=1e-4)


def test_what_is_frozen_stays_and_all_else_moves():
    grid, plan = [(0.1, 0.0)], PLAN._replace(epochs=1, batch_size=10)
    alone, both = (searched(grid, plan=plan, frozen=frozen).params for frozen in (("b",), ()))
    assert (alone["w"].item(), alone["b"].item()) == pytest.approx((0.1, 0.0))
    assert (both["w"].item(), both["b"].item()) == pytest.approx((0.1, 0.1))


def test_batches_are_what_is_fetched():
    def doubled(data, replica, index, epoch):
        return Dataset(2 * data.inputs[index], data.targets[index])

    found = searched([(0.1, 0.0)], plan=PLAN._replace(epochs=1, batch_size=10), fetch=doubled)
    assert found.params["w"].item() == pytest.approx(0.2)


def test_rungs_and_the_winner_are_decided_by_the_test_error_of_their_epoch():
    """w after t steps is 1 - (1 - rate)^t, which should be 1/2 of the test examples."""
    rates = np.array([0.05, 0.12, 0.3, 0.9])
    plan = Plan(epochs=6, batch_size=10, eval_every=3, rungs=(Rung(2, 2),), hopeless=1e3)
    grid = [(rate, 0.0) for rate in rates]
    found = searched(grid, plan=plan, targets=(1.0, 0.5), frozen=("b",))
    after = {t: 1 - (1 - rates) ** t for t in (2, 3, 6)}
    distance = {t: np.abs(w - 0.5) for t, w in after.items()}
    # The last of them is the best on training examples, and the third at the first evaluations.
    assert [int(np.argmin(distance[t])) for t in (2, 3, 6)] == [2, 2, 1]
    assert sorted(np.argsort(distance[2])[:2]) == [1, 2]
    assert found.trained.tolist() == [2, 6, 6, 2] and found.best == 1
    for place, t in enumerate((2, 3, 6)):
        np.testing.assert_allclose(found.test_error[place, 1:3], distance[t][1:3] ** 2, atol=1e-5)
        np.testing.assert_allclose(
            found.train_error[place, 1:3], (after[t][1:3] - 1) ** 2, atol=1e-5
        )
