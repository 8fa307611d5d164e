"""Kernels by Monte Carlo: against formulas, wide networks, and a closed form of max pooling."""

import jax
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax.errors import InputError
from lsa_jax.models import (
    AvgPool,
    Conv,
    Dense,
    Dropout,
    Erf,
    Flatten,
    GlobalAvgPool,
    LayerNorm,
    MaxPool,
    Relu,
    Residual,
    network,
    sampled_kernel,
)

KEY = jax.random.key(3)
IMAGES = np.random.default_rng(0).normal(size=(3, 4, 4, 2)).astype(np.float32)
TAIL = 5.0  # standard errors

WITH_FORMULAS = {
    "dense": [Flatten(), Dense(1, 1.3, 0.4), Relu(), Dense(1, 1.2, 0.3), Erf(), Dense(1, 0.8, 0.1)],
    "pooled": [Conv(1, (3, 2), (1, 2), "SAME", 1.4, 0.3), Relu(), AvgPool(), Flatten(), Dense(1)],
    "residual": [
        Conv(1, w_std=1.2), LayerNorm(), Residual((Relu(), Conv(1, (2, 2), b_std=0.5))),
        GlobalAvgPool(), Dense(1),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "get"), [("dense", "nngp"), *((name, "ntk") for name in WITH_FORMULAS)]
)
def test_layers_that_have_formulas_have_their_kernel(name, get):
    layers = WITH_FORMULAS[name]
    found = sampled_kernel(KEY, layers, IMAGES[:2], IMAGES[1:], get=get)
    expected = network(layers).kernel(IMAGES[:2], IMAGES[1:], get)
    size = np.abs(expected).max()
    assert found.converged and found.mean.shape == (2, 2)
    assert (np.abs(found.mean - expected) < TAIL * found.error + 1e-3 * size).all()


def test_the_larger_of_two_gaussian_numbers_has_a_closed_form():
    """With s = z + w and d = z - w the maximum is (s + |d|) / 2, whose derivative is known."""
    x = np.random.default_rng(1).normal(size=(4, 1, 2, 3)).astype(np.float32)
    layers = [Conv(1, (1, 1), w_std=1.3, b_std=0.2), MaxPool((1, 2), (1, 2)), Flatten(), Dense(1)]
    pixels = x.reshape(4, 2, 3).astype(float)
    whole = 1.3**2 / 3 * np.einsum("apk,bqk->apbq", pixels, pixels) + 0.2**2
    both, apart = (np.einsum("apbq,p,q->ab", whole, w, w) for w in ([1, 1], [1, -1]))
    sizes = np.sqrt(np.outer(np.diag(apart), np.diag(apart)))
    cosine = np.clip(apart / sizes, -1, 1)
    absolute = 2 / np.pi * sizes * (np.sqrt(1 - cosine**2) + cosine * np.arcsin(cosine))
    nngp = (both + absolute) / 4
    tangent = (both + 2 / np.pi * np.arcsin(cosine) * apart) / 4
    given = {"samples": 2000, "tolerance": 0.01}
    for get, expected in (("nngp", nngp), ("ntk", nngp + tangent)):
        found = sampled_kernel(KEY, layers, x, get=get, **given)
        assert (np.abs(found.mean - expected) < TAIL * found.error + 1e-5).all()


def test_max_pooling_is_the_limit_of_wide_networks():
    """Between nonlinearities and weights, in windows that overlap; also of its derivative."""

    def layers(width):
        pool = MaxPool((2, 2), (1, 1), "SAME")
        return [Conv(width, w_std=1.4), Relu(), pool, Conv(width, w_std=1.4), pool, Erf(),
                Flatten(), Dense(8)]  # fmt: skip

    few, width = IMAGES[:2], 96
    wide = network(layers(width))
    finite = kernels.monte_carlo_kernel(
        KEY, lambda key: wide.init(key, few.shape[1:]), wide.apply, few, tolerance=0.02
    )
    found = sampled_kernel(KEY, layers(1), few, tolerance=0.01)
    slack = TAIL * np.hypot(found.error, finite.error) + finite.mean.max() / width
    assert (np.abs(found.mean - finite.mean) < slack).all()


def test_what_needs_a_formula_refuses_max_pooling_and_names_the_estimate(key):
    layers = [Conv(2), Relu(), MaxPool(), Flatten(), Dense(2)]
    model = network(layers)
    assert not model.kernel
    with pytest.raises(InputError, match=r"MaxPool, whose kernel models\.sampled_kernel estimates"):
        kernels.gram(model.ntk or model.kernel, IMAGES)
    for wrong, words in (
        ([Flatten(), Dense(2), Dropout(0.5), Dense(2)], "layers hold Dropout; accepted"),
        ([Residual((Conv(2),)), Flatten(), Dense(2)], "the inputs themselves"),
        ([Conv(2), GlobalAvgPool()], "layers end in GlobalAvgPool; accepted"),
        ([Conv(2), MaxPool((9, 9)), Flatten(), Dense(2)], "accepted: larger inputs"),
    ):
        with pytest.raises(InputError, match=words):
            sampled_kernel(key, wrong, IMAGES)
