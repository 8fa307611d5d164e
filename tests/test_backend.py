"""The processor that programs are built for, also one that is not there."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lsa_jax import backend, kernels, models


def test_operations_are_counted_where_the_default_device_does_not_count(uncounted):
    form = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    assert jax.jit(jnp.dot).lower(form, form).cost_analysis() is None
    assert backend.count_flops(jnp.dot, form, form) == 2 * 8**3


def test_the_finite_ntk_chooses_its_method_where_the_default_device_does_not_count(uncounted):
    model = models.mlp(8)
    params = model.init(jax.random.key(0), (6,))
    x = jax.random.normal(jax.random.key(1), (3, 6))
    found = kernels.empirical_ntk(model.apply, params, x)
    direct = kernels.empirical_ntk(model.apply, params, x, method="jacobian")
    np.testing.assert_allclose(found, direct, rtol=1e-4)
    tiles = kernels.gram(kernels.finite_kernel(model.apply, params), x)
    np.testing.assert_allclose(tiles, direct, rtol=1e-4)


def test_what_was_traced_for_one_platform_is_traced_again_for_another():
    seen = []

    @jax.jit
    def traced(x):
        seen.append(backend.platform())
        return x

    for name in ("gpu", "tpu", "gpu"):
        with backend.built_for(name):
            traced.lower(1.0)
    traced.lower(1.0)
    assert seen == ["gpu", "tpu", jax.default_backend()]


def test_memory_and_devices_are_those_of_the_machine_that_is_built_for():
    assert backend.memory() is None  # of CPUs
    with backend.built_for("tpu", memory=16e9, count=4):
        assert (backend.platform(), backend.memory(), backend.device_count()) == ("tpu", 16e9, 4)
        assert not backend.is_cpu()
    assert backend.device_count() == jax.device_count()


def test_platforms_go_by_both_of_their_names():
    with backend.built_for("gpu"):
        assert backend.is_this(("cuda",)) and backend.is_this(("rocm", "tpu"))
        assert not backend.is_this(("cpu", "tpu"))


def test_what_a_gradient_keeps_is_counted_and_less_of_it_with_checkpoints():
    w, x = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((4, 4), (100, 4)))
    kept = backend.bytes_for_gradient(lambda w, x: jnp.sum(jnp.sin(x @ w)), w, x)
    # The inputs, and the cosine of the argument of the sine.
    assert 2 * 400 * 4 <= kept <= 2 * 400 * 4 + 16 * 4
    layers = jax.ShapeDtypeStruct((8, 4, 4), jnp.float32)

    def deep(layers, x, wrap):
        block = wrap(lambda x, w: (jnp.sin(jnp.sin(jnp.sin(x @ w))), None))
        return jnp.sum(lax.scan(block, x, layers)[0])

    plain, less = (
        backend.bytes_for_gradient(lambda p, x, wrap=wrap: deep(p, x, wrap), layers, x)
        for wrap in (lambda f: f, jax.checkpoint)
    )
    assert 8 * 1600 <= less < plain / 3
