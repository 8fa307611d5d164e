"""Settings that tests of several kinds of kernels share."""

import jax
import pytest


@pytest.fixture(scope="module")
def quick_compilation():
    """Leaves most optimisations out: for tests that compile a great deal and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
