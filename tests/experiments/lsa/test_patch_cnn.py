import jax
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.patch_cnn import patch_cnn


def test_one_filter_is_the_papers_function(key):
    inputs = np.asarray(jax.random.normal(key, (3, 6, 4)))
    w, b = np.array([0.3, -1.0, 0.5, 0.2]), -0.4
    params = {"w": w[:, None].astype(np.float32), "b": np.array([b], np.float32)}
    expected = []
    for patches in inputs:
        z = patches @ w
        # Soft threshold for b < 0: what lies within [b, -b] is lost, the rest moves by b.
        expected.append(sum(np.sign(v) * (abs(v) + b) for v in z if abs(v) > -b))
    outputs = patch_cnn().apply(params, inputs)
    np.testing.assert_allclose(outputs[:, 0], expected, rtol=1e-5)


def test_thresholds_start_at_zero_and_weights_at_their_scale(key):
    params = patch_cnn(500, init_scale=1e-3).init(key, (7, 40))
    assert params["w"].shape == (40, 500)
    np.testing.assert_array_equal(params["b"], np.zeros(500))
    assert np.std(params["w"]) == pytest.approx(1e-3, rel=0.02)


@pytest.mark.parametrize("filters", [1, 4])
def test_kernels_are_the_means_over_initialisations(key, filters):
    model = patch_cnn(filters, init_scale=0.7)
    x = jax.random.normal(key, (3, 5, 4))
    x = x.at[1, 2].set(0.0).at[2, 3].set(-x[0, 1])  # a patch of zeros, and two opposite ones

    def sample(key):
        params = model.init(key, x.shape[1:])
        outputs = model.apply(params, x)
        jacobian = jax.jacrev(model.apply)(params, x)
        rows = [leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(jacobian)]
        return {"ntk": sum(row @ row.T for row in rows), "nngp": outputs @ outputs.T}

    draws = jax.jit(jax.vmap(sample))(jax.random.split(key, 4000))
    for get, samples in draws.items():
        samples = np.asarray(samples, np.float64)
        kernel = np.asarray(model.kernel(x, get=get))
        error_bar = samples.std(axis=0) / np.sqrt(len(samples))
        assert np.all(np.abs(samples.mean(axis=0) - kernel) < 4.5 * error_bar + 1e-5)
        assert np.all(error_bar < 0.03 * np.max(kernel))
        np.testing.assert_array_equal(model.kernel(x, x[1:], get), kernel[:, 1:])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda key: patch_cnn(0), "filters is 0"),
        (lambda key: patch_cnn(init_scale=0.0), "init_scale is 0.0; accepted: a number above 0"),
        (lambda key: patch_cnn().init(key, (3,)), r"input_shape is \(3,\); accepted: \(patches, d"),
        (lambda key: patch_cnn().kernel(np.ones((2, 3, 4)), get="NTK"), "get is 'NTK'"),
    ],
)
def test_mistakes_are_one_line(key, mistake, message):
    with pytest.raises(InputError, match=message) as caught:
        mistake(key)
    assert "\n" not in str(caught.value)
