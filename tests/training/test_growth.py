"""Layer maps, and moving parameters and optimisers' states to a deeper network, exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax.errors import InputError
from lsa_jax.training.growth import (
    NEW,
    Operator,
    grow,
    layer_map,
    num_layers_of,
    search_space,
    stack_last,
)
from lsa_jax.training.lag import grow_all
from lsa_jax.training.steps import NetworkState

R = NEW


@pytest.mark.parametrize(
    "operator, expected",
    [
        # The thesis' own examples, whose indices and layers count from 1 there.
        (Operator(1, 1, "copy"), (0, 1, 1, 2, 2, 3, 3, 4, 5)),
        (Operator(1, 3, "copy"), (0, 1, 2, 3, 1, 2, 3, 4, 5)),
        (Operator(1, 1, "random"), (0, 1, R, 2, R, 3, R, 4, 5)),
        (Operator(1, 3, "random"), (0, 1, 2, 3, R, R, R, 4, 5)),
        (stack_last(6, 3), (0, 1, 2, 3, 4, 5, 3, 4, 5)),
        (stack_last(6, 3, "random"), (0, 1, 2, 3, 4, 5, R, R, R)),
    ],
)
def test_layer_maps_are_those_of_the_thesis(operator, expected):
    assert layer_map(6, 3, operator) == expected


def test_the_search_space_of_the_thesis_has_thirty_operators_and_all_differ():
    space = search_space(12, 4, indices=(0, 2, 4, 6, 8))
    assert len(space) == 30
    assert len({layer_map(12, 4, operator) for operator in space}) == 30
    for operator in space:
        kept = [layer for layer in layer_map(12, 4, operator) if layer != NEW]
        assert sorted(set(kept)) == list(range(12)) and len(layer_map(12, 4, operator)) == 16


@pytest.mark.parametrize(
    "operator",
    [
        Operator(4, 1, "copy"),
        Operator(-1, 1, "copy"),
        Operator(0, 2, "copy"),
        Operator(0, 0, "copy"),
        Operator(0, 1, "zero"),
    ],
)
def test_operators_that_do_not_fit_are_refused(operator):
    with pytest.raises(InputError, match="accepted"):
        layer_map(6, 3, operator)


def test_the_search_space_is_every_place_every_divisor_and_both_sources():
    space = search_space(9, 6)
    wanted = {(i, b, s) for i in (0, 1, 2, 3) for b in (1, 2, 3, 6) for s in ("copy", "random")}
    assert set(space) == wanted and len(space) == len(wanted)
    assert search_space(9, 6, indices=(3,), block_sizes=(2,), sources=("copy",)) == [(3, 2, "copy")]
    with pytest.raises(InputError, match="index is 4"):
        search_space(9, 6, indices=(4,))


def test_layers_are_counted_on_the_first_axis():
    assert num_layers_of({"tokens": np.zeros(2), "layers": {"w": np.zeros((5, 3, 4))}}) == 5


def params_of(layers, shift):
    count = 128  # Adafactor factors axes from 128 up
    values = np.arange(layers * count * count, dtype=np.float32).reshape(layers, count, count)
    bias = np.arange(layers, dtype=np.float32)[:, None] * np.ones(3, np.float32)
    return {
        "tokens": jnp.full((4, 3), shift),
        "layers": {"w": jnp.asarray(np.cos(values + shift)), "bias": jnp.asarray(bias + shift)},
    }


@pytest.mark.parametrize("name", ["adamw", "adafactor"])
def test_moments_move_with_their_layers_and_new_layers_have_none(name):
    rule = optax.adamw(1e-2) if name == "adamw" else optax.adafactor(1e-2)
    old, fresh = params_of(3, 0.5), params_of(5, 9.0)
    gradient = jax.tree.map(jnp.sin, old)
    _, state = rule.update(gradient, rule.init(old), old)
    sources = layer_map(3, 2, Operator(1, 1, "random"))
    assert sources == (0, 1, R, 2, R)
    grown = grow(state, rule.init(fresh), np.array(sources))
    expected = jax.tree.leaves(rule.init(fresh))
    pairs = zip(jax.tree.leaves(grown), jax.tree.leaves(state), expected, strict=True)
    moved = 0
    for new, before, zero in pairs:
        assert new.shape == zero.shape and new.dtype == before.dtype
        if before.shape == zero.shape:
            np.testing.assert_array_equal(new, before)  # counters, other parameters, fillings
        else:
            moved += 1
            np.testing.assert_array_equal(new[np.array([0, 1, 3])], before)
            np.testing.assert_array_equal(new[np.array([2, 4])], 0)
    # Adam's two moments of w and bias; Adafactor's rows and columns of w, and bias unfactored.
    assert moved == (4 if name == "adamw" else 3)


def test_copies_take_their_layers_parameters_and_moments():
    rule = optax.adam(1e-2)
    old = params_of(3, 0.5)
    _, opt_state = rule.update(jax.tree.map(jnp.sin, old), rule.init(old), old)
    fresh = params_of(4, 9.0)
    grown = grow_all(NetworkState(old, opt_state), fresh, rule, [Operator(2, 1, "copy")])
    w, mu = grown.params["layers"]["w"][0], grown.opt_state[0].mu["layers"]["w"][0]
    np.testing.assert_array_equal(w[[2, 3]], np.stack([old["layers"]["w"][2]] * 2))
    np.testing.assert_array_equal(mu[3], opt_state[0].mu["layers"]["w"][2])
    np.testing.assert_array_equal(grown.params["tokens"][0], old["tokens"])
    assert grown.opt_state[0].count.tolist() == [1]
