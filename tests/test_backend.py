import jax
import numpy as np

from lsa_jax import backend, kernels, models


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
