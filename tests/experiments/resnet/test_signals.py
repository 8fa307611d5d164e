"""Two-stage targets: parities, polynomials, and their signals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.resnet.hierarchical.settings import SETTINGS
from lsa_jax.experiments.resnet.hierarchical.tasks import make_hierarchy, polynomials, signals
from lsa_jax.sweep.variants import set_fields


def hierarchy(**fields):
    return make_hierarchy(set_fields(SETTINGS.default_config(), fields))


def cube(key, count, d):
    return jax.random.rademacher(key, (count, d), jnp.float32)


def test_the_paper_s_target_is_products_of_neighbours_and_one_parity_of_degree_8(key):
    x = cube(key, 40, 30)
    base, composite = signals(hierarchy(alpha=0.3, beta=0.5), x)
    x = np.asarray(x)
    pairs = np.stack([x[:, 2 * i] * x[:, 2 * i + 1] for i in range(15)], axis=1)
    np.testing.assert_array_equal(base, 0.5 * pairs)
    signs = [-1 if i % 2 else 1 for i in range(1, 16)]
    expected = 0.3 * np.outer(np.prod(x[:, :8], axis=1), signs)
    np.testing.assert_allclose(composite, expected, rtol=1e-6)


def test_fewer_outputs_are_the_first(key):
    x = cube(key, 5, 8)
    few = hierarchy(d=8, base_degree=1, composite_degree=3, outputs=3)
    np.testing.assert_array_equal(few.base(x), x[:, :3])
    product = np.prod(x[:, :3], axis=1)
    expected = np.stack([-product, product, -product], axis=1)
    np.testing.assert_array_equal(few.composite(x[:, :3]), expected)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_polynomials_of_gaussians_have_mean_0_and_variance_1(key, degree):
    z = jax.random.normal(key, (200_000, 2))
    values = np.asarray(polynomials(jnp.array([[0.6, 0.8]]), degree)(z), float)
    assert abs(values.mean()) < 0.02 and abs(values.var() - 1) < 0.15


def test_smooth_targets_are_functions_of_the_base_signal_s_features(key):
    fields = {"target": "smooth", "d": 6, "outputs": 3, "base_degree": 2, "composite_degree": 1}
    base, composite = signals(hierarchy(alpha=0.5, **fields), cube(key, 7, 6))
    assert base.shape == composite.shape == (7, 3)
    # Degree 1: alpha times a linear map of F with unit rows.
    matrix = np.linalg.lstsq(np.asarray(base), np.asarray(composite) / 0.5, rcond=None)[0]
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1, rtol=1e-3)
