import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.transformers.curvature import largest_eigenvalue
from lsa_jax.experiments.transformers.one_layer import mean_loss
from lsa_jax.experiments.transformers.sampler import (
    all_sets,
    label_sequences,
    random_lists,
)


def test_the_largest_eigenvalue_is_the_dense_hessians():
    task, sets = random_lists(jax.random.key(2), 4, 2), jnp.asarray(all_sets(4, 2))
    labels = label_sequences(task, sets)
    generator = np.random.default_rng(0)
    with jax.enable_x64(True):
        params = {name: jnp.asarray(generator.normal(size=(4, 4))) for name in ("w", "v")}

        def loss(params, data):
            return mean_loss(params, *data)

        found = largest_eigenvalue(loss, params, (sets, labels))
        flat, unravel = jax.flatten_util.ravel_pytree(params)
        dense = np.asarray(jax.jit(jax.hessian(lambda p: loss(unravel(p), (sets, labels))))(flat))
    assert found == pytest.approx(np.linalg.eigvalsh(dense)[-1], rel=1e-6)
    assert dense.shape == (32, 32) and found > 0


def bowl(params, curvatures):
    return 0.5 * jnp.sum(curvatures * params**2)


def test_it_is_the_most_positive_one_and_may_be_repeated():
    curvatures = jnp.array([-9.0, 2.0, 2.0, 1.0])
    assert largest_eigenvalue(bowl, jnp.zeros(4), curvatures) == pytest.approx(2)
    assert largest_eigenvalue(bowl, jnp.zeros(4), 0 * curvatures) == 0
    flat = jnp.array([0.0, 0.0, 3.0, 1.0])
    assert largest_eigenvalue(bowl, jnp.zeros(4), flat) == pytest.approx(3)


def test_a_hessian_that_is_not_finite_is_refused():
    with pytest.raises(NumericalError, match="the Hessian is not finite"):
        largest_eigenvalue(bowl, jnp.zeros(4), jnp.array([1.0, np.inf, 1.0, 1.0]))
