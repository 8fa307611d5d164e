import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.resnet.hierarchical.tasks import (
    paper_parities,
    polynomials,
    signals,
    smooth_hierarchy,
)


def test_the_paper_s_target_is_products_of_neighbours_and_one_parity_of_degree_8(key):
    x = np.asarray(jax.random.rademacher(key, (40, 30), jnp.float32))
    assert set(np.unique(x)) == {-1.0, 1.0}
    base, composite = signals(paper_parities(30, 2, 4, 0.3, 0.5), jnp.asarray(x))
    pairs = np.stack([x[:, 2 * i] * x[:, 2 * i + 1] for i in range(15)], axis=1)
    np.testing.assert_array_equal(base, 0.5 * pairs)
    signs = [-1 if i % 2 else 1 for i in range(1, 16)]
    expected = 0.3 * np.outer(np.prod(x[:, :8], axis=1), signs)
    np.testing.assert_allclose(composite, expected, rtol=1e-6)


def test_a_composite_of_more_outputs_than_there_are_is_refused():
    with pytest.raises(InputError, match="composite_degree is 5; accepted: at most 4"):
        paper_parities(9, 2, 5, 0.3)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_polynomials_of_gaussians_have_mean_0_and_variance_1(key, degree):
    z = jax.random.normal(key, (200_000, 2))
    values = np.asarray(polynomials(jnp.array([[0.6, 0.8]]), degree)(z), float)
    assert abs(values.mean()) < 0.02 and abs(values.var() - 1) < 0.15


def test_smooth_targets_are_functions_of_the_base_signal_s_features(key):
    hierarchy = smooth_hierarchy(key, 6, 3, 2, 1, alpha=0.5)
    base, composite = signals(hierarchy, jax.random.rademacher(key, (7, 6), jnp.float32))
    assert base.shape == composite.shape == (7, 3)
    # Degree 1: alpha times a linear map of F with unit rows.
    matrix = np.linalg.lstsq(np.asarray(base), np.asarray(composite) / 0.5, rcond=None)[0]
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1, rtol=1e-3)
