"""Programs of the processor that they are built for."""

import jax

from lsa_jax import backend


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
