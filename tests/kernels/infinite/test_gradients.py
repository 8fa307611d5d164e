"""Gradients of predictors in patches against derivatives of the predictor in the images."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.kernels.infinite import gradients, recursion
from lsa_jax.kernels.infinite.pointwise import Relu
from lsa_jax.kernels.infinite.steps import Affine, Flatten
from lsa_jax.kernels.infinite.windows import Windows

# Windows that do not overlap: each pixel is in one patch, so patches are images rearranged.
CONV = Affine(1, 1.5, 0.3, "ntk", Windows((2, 2), (2, 2), "VALID"))
DENSE = Affine(1, 1.2, 0.1, "ntk")
NETS = {
    "dense": ((Flatten(), DENSE, Relu(), DENSE), 48),
    "convolution": ((CONV, Relu(), Flatten(), DENSE), 8),
    "linear": ((CONV, Flatten(), DENSE), 8),
}
RNG = np.random.default_rng(0)
X, POINTS = (RNG.normal(size=(n, 4, 6, 2)).astype(np.float32) for n in (6, 3))
WEIGHTS = RNG.normal(size=(6, 3)).astype(np.float32)


def patches(images, size):
    """Lays out what each window sees, [windows, size, ...], the images' last axes behind."""
    if size == 48:
        return images.reshape(1, 48, *images.shape[3:])
    cut = images.reshape(2, 2, 3, 2, 2, *images.shape[3:])
    return np.moveaxis(cut, 2, 1).reshape(6, size, *images.shape[3:])


@pytest.mark.parametrize(
    ("name", "get"),
    [("dense", "ntk"), ("convolution", "ntk"), ("linear", "nngp")],
)
def test_outer_products_are_those_of_derivatives_of_the_predictor(name, get):
    steps, size = NETS[name]

    @jax.jit
    @jax.jacrev
    def slopes(image):
        return recursion.kernel(steps, image[None], jnp.array(X), get)[0] @ WEIGHTS

    expected = np.zeros((size, size))
    for point in POINTS[:2]:
        of_outputs = np.moveaxis(np.asarray(slopes(jnp.array(point)), float), 0, -1)
        for patch in patches(of_outputs, size):
            expected += patch @ patch.T
    # Patches are scaled so that their products are covariances.
    expected /= steps[name == "dense"].w_std ** 2 / size

    total = gradients.zeros(steps, POINTS, 3)
    for block in (slice(4), slice(4, 6)):  # 4 and 2 of them, two at a time
        parts = (jnp.array(POINTS), jnp.array(X[block]), jnp.array(WEIGHTS[block]))
        total = gradients.add_block(steps, get, 2, None, *parts, total)
    found = gradients.outer_product(steps, None, jnp.array(POINTS), 2, total)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max())
