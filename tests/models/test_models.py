"""Properties of every model: one row a model, one test a property."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.lsa.sparse_signal import patch_cnn
from lsa_jax.models import cnn, mlp, wide_resnet

STANDARD = {"parameterization": "standard", "b_std": 0.3}
FAMILY = {
    "mlp": (partial(mlp, 2, 3, widths=(5, 7)), (4,)),
    "mlp_erf_standard": (partial(mlp, 1, 3, activation="erf", **STANDARD), (3, 2, 1)),
    "cnn": (partial(cnn, 2, 3), (7, 8, 2)),
    "cnn_standard": (partial(cnn, 1, 3, channels=(3,), **STANDARD), (5, 7, 1)),
    "wide_resnet": (partial(wide_resnet, 1, 3), (5, 4, 2)),
    "patch_cnn": (partial(patch_cnn, 3, init_scale=0.5), (5, 4)),
}
with_settings = pytest.mark.parametrize(
    "name", ["mlp_erf_standard", "cnn", "cnn_standard", "wide_resnet"]
)


@lru_cache
def built(name, **settings):
    """A model's compiled apply, its parameters and inputs; shared, as compiling takes longest."""
    build, shape = FAMILY[name]
    model = build(**settings)
    params = jax.jit(model.init, static_argnums=1)(jax.random.key(1), shape)
    return jax.jit(model.apply), params, jax.random.normal(jax.random.key(2), (7, *shape))


@pytest.mark.parametrize("name", FAMILY)
def test_gradient_is_finite_and_reaches_every_parameter(name):
    apply, params, inputs = built(name)
    gradient = jax.jit(jax.grad(lambda params: jnp.sum(apply(params, inputs) ** 2)))(params)
    for leaf in jax.tree.leaves(gradient):
        assert np.all(np.isfinite(leaf))
        assert np.any(leaf != 0)


@with_settings
def test_bfloat16_is_float32_to_its_rounding(name):
    apply, params, inputs = built(name)
    apply_rounded, same_params, _ = built(name, dtype="bfloat16")
    jax.tree.map(np.testing.assert_array_equal, same_params, params)
    exact, rounded = apply(params, inputs), apply_rounded(params, inputs)
    assert rounded.dtype == jnp.float32
    error = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
    assert 1e-4 < error < 0.05


@with_settings
def test_parameterizations_are_one_function_from_one_key(name):
    outputs = []
    for parameterization in ("ntk", "standard"):
        apply, params, inputs = built(name, parameterization=parameterization)
        outputs.append(apply(params, inputs))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-3, atol=2e-5)
