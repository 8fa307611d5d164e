"""Properties of every model: one row a model, one test a property."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.lsa.sparse_signal import patch_cnn
from lsa_jax.models import Model, cnn, mlp, wide_resnet


class Row(NamedTuple):
    build: Callable[..., Model]
    input_shape: tuple[int, ...]
    num_outputs: int
    couples_batch: bool = False


STANDARD = {"parameterization": "standard", "b_std": 0.3}
FAMILY = {
    "mlp": Row(partial(mlp, 2, 3, widths=(5, 7)), (4,), 3),
    "mlp_erf_standard": Row(partial(mlp, 1, 3, activation="erf", **STANDARD), (3, 2, 1), 3),
    "cnn": Row(partial(cnn, 2, 3), (7, 8, 2), 3),
    "cnn_standard": Row(partial(cnn, 1, 3, channels=(3,), **STANDARD), (5, 7, 1), 3),
    "wide_resnet": Row(partial(wide_resnet, 1, 3), (5, 4, 2), 3, couples_batch=True),
    "patch_cnn": Row(partial(patch_cnn, 3, init_scale=0.5), (5, 4), 1),
}
every_model = pytest.mark.parametrize("row", FAMILY.values(), ids=FAMILY)
with_settings = pytest.mark.parametrize(
    "row",
    [
        pytest.param(FAMILY[name], id=name)
        for name in ("mlp_erf_standard", "cnn", "cnn_standard", "wide_resnet")
    ],
)


@lru_cache
def built(row: Row, **settings):
    """A row's model, its compiled apply, and its parameters; shared, as compiling takes longest."""
    model = row.build(**settings)
    init = jax.jit(model.init, static_argnums=1)
    return model, jax.jit(model.apply), init(jax.random.key(1), row.input_shape)


def draw_inputs(row: Row, n: int = 7):
    return jax.random.normal(jax.random.key(2), (n, *row.input_shape))


@every_model
def test_an_example_meets_the_others_only_in_batch_normalisation(row):
    _, apply, params = built(row)
    inputs = draw_inputs(row)
    among_others = apply(params, inputs.at[1:].multiply(-3.0))[0]
    unchanged = np.allclose(among_others, apply(params, inputs)[0], atol=2e-5)
    assert unchanged != row.couples_batch


@every_model
def test_gradient_is_finite_and_reaches_every_parameter(row):
    model, _, params = built(row)
    inputs = draw_inputs(row)
    gradient = jax.jit(jax.grad(lambda params: jnp.sum(model.apply(params, inputs) ** 2)))(params)
    for leaf in jax.tree.leaves(gradient):
        assert np.all(np.isfinite(leaf))
        assert np.any(leaf != 0)


@with_settings
def test_bfloat16_is_float32_to_its_rounding(row):
    inputs = draw_inputs(row)
    _, apply, params = built(row)
    _, apply_rounded, same_params = built(row, dtype="bfloat16")
    jax.tree.map(np.testing.assert_array_equal, same_params, params)
    exact, rounded = apply(params, inputs), apply_rounded(params, inputs)
    assert rounded.dtype == jnp.float32
    error = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
    assert 1e-4 < error < 0.05


@with_settings
def test_parameterizations_are_one_function_from_one_key(row):
    inputs = draw_inputs(row)
    outputs = []
    for parameterization in ("ntk", "standard"):
        _, apply, params = built(row, parameterization=parameterization)
        outputs.append(apply(params, inputs))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-3, atol=2e-5)
