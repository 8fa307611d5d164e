"""Growing by layer maps, exactly, and LAG@k against descent by hand in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.training.growth import (
    NEW,
    Operator,
    grow,
    grow_and_select,
    layer_map,
    num_layers_of,
    search_space,
    stack_last,
)
from lsa_jax.training.steps import NetworkState, Problem, layouts_of

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


def chain_loss(params, batch):
    """Layers multiply: y = x w_1 ... w_n, so that growing changes the function in a known way."""
    product = jnp.prod(params["layers"]["w"])
    errors = 0.5 * jnp.square(batch["x"] * product - batch["y"])
    return errors.sum(), jnp.float32(len(errors))


def chain_problem():
    x = np.linspace(1, 2, 8, dtype=np.float32)

    def batches(first, steps):
        return {"x": np.stack([x] * steps), "y": np.stack([2 * x] * steps)}

    validation = {"x": jnp.asarray(x)[None], "y": 2 * jnp.asarray(x)[None]}
    return Problem(chain_loss, optax.sgd(0.01), batches, validation)


@pytest.fixture(scope="module")
def problem():
    return chain_problem()


def chain_state(problem, *weights):
    params = {"layers": {"w": jnp.asarray(weights)}}
    return NetworkState(params, problem.optimizer.init(params))


OPERATORS = [Operator(0, 1, "copy"), Operator(1, 1, "copy"), Operator(1, 1, "random")]


FRESH = {"layers": {"w": jnp.full(3, 0.1)}}


def descended(w, steps):
    """Returns the losses before steps and after them, where step t asks for t + 2 times x."""
    x, w, losses = np.linspace(1, 2, 8), np.array(w), []
    for step in steps:
        losses.append(0.5 * np.mean((x * w.prod() - 2 * x) ** 2))
        w = w - 0.01 * np.mean((x * w.prod() - (step + 2) * x) * x) * w.prod() / w
    return [*losses, 0.5 * np.mean((x * w.prod() - 2 * x) ** 2)]


@pytest.mark.parametrize("at_once", [2, 3])
def test_the_mean_of_the_last_losses_decides_and_batches_go_on_from_the_first_step(
    problem, at_once
):
    x, asked = np.linspace(1, 2, 8, dtype=np.float32), []

    def batches(first, count):
        asked.append((first, count))
        steps = range(first, first + count)
        return {"x": np.stack([x] * count), "y": np.stack([(step + 2) * x for step in steps])}

    reported, operators = [], [OPERATORS[2], *OPERATORS[:2]]
    state = chain_state(problem, 2.0, 0.7)
    found = grow_and_select(
        problem._replace(batches=batches),
        state,
        FRESH,
        operators,
        steps=5,
        first_step=3,
        window=2,
        layouts=layouts_of(3, at_once),
        checkpoint_every=3,
        progress=reported.append,
    )
    ways = [[2, 0.7, 0.1], [2, 2, 0.7], [2, 0.7, 0.7]]
    expected = np.array([descended(w, range(3, 8))[-2:] for w in ways]).T
    np.testing.assert_allclose(found.losses, expected, rtol=1e-4)
    np.testing.assert_allclose(list(found.scores.values()), expected.mean(axis=0), rtol=1e-4)
    assert list(found.scores) == operators
    assert found.operator == operators[int(np.argmin(expected.mean(axis=0)))]
    # Segments of three steps and of the remaining two, part by part.
    assert asked == [(3, 3), (6, 2)] * (1 if at_once == 3 else 2)
    shares = [3 / 5, 1] if at_once == 3 else [2 / 5, 2 / 3, 2 / 3 + 1 / 5, 1]
    assert reported == pytest.approx(shares)


def test_operators_that_diverge_are_not_chosen_and_none_is_where_all_do(problem):
    with np.errstate(over="ignore"):
        state = chain_state(problem, 1e20, 1e-20)
        found = grow_and_select(problem, state, FRESH, OPERATORS[:2], steps=0)
        assert found.operator == OPERATORS[1] and not np.isfinite(found.scores[OPERATORS[0]])
        with pytest.raises(NumericalError, match="no operator has a finite loss after 0 steps"):
            grow_and_select(problem, state, FRESH, OPERATORS[:1], steps=0)


@pytest.mark.usefixtures("unchecked")
def test_growth_beyond_the_layers_and_parameters_without_layers_are_refused():
    with pytest.raises(InputError, match="added is 5; accepted: one of 1, 2"):
        search_space(2, 5)
    with pytest.raises(InputError, match="params has w; accepted: .* entry 'layers'"):
        num_layers_of({"w": np.zeros((2, 3))})
