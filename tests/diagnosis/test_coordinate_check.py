"""The coordinate check of any network: slopes and curves of known laws, and of real widths."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest
from flax import linen as nn

import lsa_jax
from lsa_jax import models
from lsa_jax.diagnosis.coordinate_check import CoordinateCheck
from lsa_jax.errors import InputError
from lsa_jax.models import Dense, Relu, network
from lsa_jax.training.coordinates import activations_of

WIDTHS = (16, 64, 256)
X = np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


def check_of(slope, spread, seeds=3):
    """Changes that are powers of the width, and curves that end a relative distance apart."""
    rows = [
        {
            "width": w,
            "seed": s,
            "change/Relu_0": 2 * w**0.01,
            "change/outputs": w ** (slope + s / 1e3),
        }
        for w in WIDTHS
        for s in range(seeds)
    ]
    ends = (0.6 + 0.4 * spread * np.array([-0.5, 0.0, 0.5]))[:, None] * np.ones(seeds)
    curves = np.stack([np.ones((len(WIDTHS), seeds)), ends], axis=-1)  # which fall by 0.4
    return CoordinateCheck(pd.DataFrame(rows), curves, WIDTHS)


@pytest.mark.parametrize(
    ("slope", "spread", "words", "verdict"),
    [
        (0.0, 0.1, ("flat", "flat", "collapse"), "the rate transfers"),
        (0.14, 0.24, ("flat", "flat", "collapse"), "the rate transfers"),
        (0.17, 0.1, ("flat", "grows", "collapse"), "not transfer: the slope of outputs grows"),
        (-0.17, 0.3, ("flat", "falls", "no collapse"), "not transfer: the slope of outputs falls"),
        (0.0, 0.3, ("flat", "flat", "no collapse"), "need not transfer"),
    ],
)
def test_powers_of_the_width_and_spreads_decide_the_verdict(slope, spread, words, verdict):
    found = check_of(slope, spread)
    assert found.table["value"].tolist() == pytest.approx([0.01, slope + 1e-3, spread])
    assert tuple(found.table["verdict"]) == words
    assert verdict in found.verdict and found.verdict in str(found)
    assert (found.table["low"] <= found.table["value"]).all()
    lines = {line.get_label(): line for line in found.figure().axes[0].get_lines()}
    assert lines["Relu_0"].get_ydata() == pytest.approx([2 * w**0.01 for w in WIDTHS])


def layers(width):
    return [Dense(width), Relu(), Dense(width), Relu(), Dense(2)]


def in_mup(width):
    return network(layers(width), parameterization="mup", base=layers(16))


def in_standard(width):
    return network(layers(width), parameterization="standard")


def test_mup_transfers_where_the_standard_parameterisation_does_not():
    given = {"rate": 1e-2, "curve_steps": 16}
    table = {
        make.__name__: lsa_jax.coordinate_check(make, WIDTHS, X, Y, **given).table
        for make in (in_mup, in_standard)
    }
    outputs = {name: t.set_index("quantity").loc["slope of outputs"] for name, t in table.items()}
    assert outputs["in_standard"]["verdict"] == "grows" and outputs["in_standard"]["value"] > 0.5
    assert abs(outputs["in_mup"]["value"]) < 0.2
    spreads = {name: t["value"].iloc[-1] for name, t in table.items()}
    assert spreads["in_mup"] < spreads["in_standard"]


def test_two_classes_are_also_those_of_one_output():
    found = lsa_jax.coordinate_check(
        lambda width: network([Dense(width), Relu(), Dense(1)]), (8, 16), X, Y,
        seeds=2, steps=1, curve_steps=16, rate=1e-2, batch_size=96,
    )  # fmt: skip
    assert (np.diff(found.curves) < 0).all()  # full batches


class Net(nn.Module):
    """Two dense layers of flax."""

    width: int

    @nn.compact
    def __call__(self, x):
        hidden = jnp.tanh(nn.Dense(self.width)(x))
        return nn.Dense(2)(hidden)


def test_activations_of_another_library_are_the_inputs_of_its_layers(key):
    model = models.from_flax_linen(Net(5))
    params = model.init(key, (8,))
    outputs, found = activations_of(model)(params, X)
    first = jax.tree.map(np.asarray, params["Dense_0"])
    hidden = np.tanh(X @ first["kernel"] + first["bias"])
    np.testing.assert_allclose(found["before Dense_1/kernel"], hidden, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["before Dense_0/kernel"], X)
    np.testing.assert_allclose(outputs, model.apply(params, X), rtol=1e-6)


def test_changes_are_those_of_the_steps_that_are_taken(key):
    def rule(width):
        return optax.sgd(0.1 / width)

    found = lsa_jax.coordinate_check(
        Net, (4, 8), X, steps=1, curve_steps=3, batch_size=96, optimizer=rule, seeds=2, key=key
    )
    assert list(found.rows)[2:] == ["change/before Dense_1/kernel", "change/outputs"]
    assert found.curves.shape == (2, 2, 3) and (found.curves[..., 0] == 1).all()
    # The same by hand: one step of half the squared distance to standard normal targets.
    targets = jax.random.normal(jax.random.fold_in(key, 1), (96, 2))
    model = models.from_flax_linen(Net(8))
    start = model.init(jax.random.split(jax.random.split(key, 2)[1])[0], (8,))

    def loss(params):
        return jnp.mean(jnp.sum((model.apply(params, X) - targets) ** 2, axis=1)) / 2

    now = jax.tree.map(lambda p, g: p - 0.1 / 8 * g, start, jax.grad(loss)(start))
    change = np.sqrt(np.mean((model.apply(now, X) - model.apply(start, X)) ** 2))
    row = found.rows.query("width == 8 and seed == 1").iloc[0]
    assert row["change/outputs"] == pytest.approx(float(change), rel=1e-3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"widths": (8,)}, "widths is"),
        ({"widths": (8, 8)}, "widths is"),
        ({"widths": 8}, "widths is 8; accepted"),
        ({"X": np.nan * X, "y": None}, "^X has .* NaN or infinite"),
        ({"optimizer": "lion"}, "optimizer is 'lion'"),
        ({"seeds": 1}, "seeds is 1"),
        ({"curve_steps": 3}, "curve_steps is 3"),
        ({"rate": 1e30, "optimizer": "sgd"}, "not finite; accepted: a smaller rate"),
        ({"make": lambda width: width}, "model is a int"),
        ({"y": Y * X[:, 0]}, "model has 2 outputs; accepted for 1 real target"),
    ],
)
def test_mistakes_are_one_line(given, message):
    with pytest.raises(InputError, match=message):
        lsa_jax.coordinate_check(**{"make": Net, "widths": (4, 8), "X": X, "y": Y} | given)
