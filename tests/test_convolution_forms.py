"""A convolution and its two transposes, each as one form, against loops over windows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax._convolution import canonical
from lsa_jax._convolution.gathered import gather, gather_and_multiply
from lsa_jax._convolution.trilinear import Windows

# Size of the images, window, strides, zeros around, features.
CASES = {
    "two neighbours at once": ((5, 6), (3, 3), (1, 1), ((1, 1), (1, 1)), 2),
    "an even window": ((4, 6), (3, 2), (1, 1), ((0, 0), (0, 1)), 3),
    "an odd number of windows": ((5, 4), (3, 2), (1, 1), ((0, 1), (0, 0)), 2),
    "many features": ((4, 5), (2, 2), (1, 1), ((0, 0), (1, 0)), 17),
    "strides": ((7, 8), (3, 4), (2, 3), ((1, 1), (0, 2)), 2),
    "windows smaller than steps": ((7, 6), (2, 1), (3, 2), ((0, 0), (0, 0)), 2),
    "wider windows than steps": ((9, 7), (5, 4), (2, 1), ((2, 2), (1, 2)), 1),
}


def draw(name):
    size, window, strides, pads, features = CASES[name]
    windows = Windows(size, window, strides, pads)
    rng = np.random.default_rng(0)
    shapes = (3, *size, 4), (*window, 4, features), (3, *windows.out, features)
    return windows, [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def by_loops(windows, x, weight, y):
    """Returns the outputs, and the derivatives of sum(y * outputs) by images and filters."""
    padded = np.pad(x.astype(float), ((0, 0), *windows.pads, (0, 0)))
    outputs, images = np.zeros(y.shape), np.zeros(padded.shape)
    filters = np.zeros(weight.shape)
    for p in range(y.shape[1]):
        for q in range(y.shape[2]):
            rows = slice(p * windows.strides[0], p * windows.strides[0] + weight.shape[0])
            columns = slice(q * windows.strides[1], q * windows.strides[1] + weight.shape[1])
            patch = padded[:, rows, columns]
            outputs[:, p, q] = np.einsum("nijc,ijcf->nf", patch, weight)
            images[:, rows, columns] += np.einsum("nf,ijcf->nijc", y[:, p, q], weight)
            filters += np.einsum("nijc,nf->ijcf", patch, y[:, p, q])
    (top, _), (left, _) = windows.pads
    return outputs, images[:, top:, left:][:, : x.shape[1], : x.shape[2]], filters


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_each_form_is_the_sum_over_windows(name):
    windows, (x, weight, y) = draw(name)
    outputs, images, filters = by_loops(windows, x, weight, y)
    x, weight, y = map(jnp.array, (x, weight, y))

    @jax.jit
    def forms(x, weight, y):
        own = canonical._to_own_images(weight, y, windows), canonical._to_own_filters(x, y, windows)
        return (
            canonical._outputs(x, weight, windows),
            gather_and_multiply(x, weight, windows.strides, windows.pads),
            canonical._to_images(weight, y, windows),
            canonical._to_filters(x, y, windows),
            *own,
        )

    expected = outputs, outputs, images, filters, images, filters
    for one, other in zip(forms(x, weight, y), expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize(("window", "columns"), [((3, 3), 4), ((2, 4), 6), ((1, 5), 6)])
def test_two_neighbours_at_once_are_multiplied_with_no_more_columns_than_their_pairs(
    window, columns
):
    """Each with 4 columns where windows have 3: a third more products."""

    def products(features):
        given = jnp.ones((1, 6, 8 + window[1] % 2, 4)), jnp.ones((*window, 4, features))
        program = jax.make_jaxpr(lambda *g: canonical._step_by_one(*g, ((0, 0), (0, 1))))(*given)
        (one,) = [e for e in program.eqns if e.primitive.name == "conv_general_dilated"]
        places = one.outvars[0].aval.shape[1:3]
        return np.prod(places) * np.prod(one.invars[1].aval.shape) / features

    assert products(2) / products(17) == columns / window[1]


def test_gathered_windows_lie_as_the_weights_of_a_filter():
    windows, (x, weight, _) = draw("strides")
    found = gather(jnp.array(x), windows.window, windows.strides, windows.pads)
    padded = np.pad(x, ((0, 0), *windows.pads, (0, 0)))
    for p in range(windows.out[0]):
        for q in range(windows.out[1]):
            patch = padded[:, 2 * p : 2 * p + 3, 3 * q : 3 * q + 4]
            np.testing.assert_array_equal(found[:, p, q], patch.reshape(3, weight[..., 0].size))
