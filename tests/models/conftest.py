import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Leaves most optimisations out: these tests compile a great deal and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
