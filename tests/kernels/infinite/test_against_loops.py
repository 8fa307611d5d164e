"""The recursion against one in numpy that keeps all pairs of positions of all pairs of examples."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.kernels.infinite import recursion, tile_sizes
from lsa_jax.kernels.infinite.pointwise import Relu
from lsa_jax.kernels.infinite.steps import Affine, Concat, Flatten, Pool, Sum
from lsa_jax.kernels.infinite.windows import Windows


def conv(w_std, b_std=None, window=(2, 2), stride=1, features=1):
    return Affine(features, w_std, b_std, "ntk", Windows(window, (stride, stride), "VALID"))


def dense(w_std, b_std=None):
    return Affine(1, w_std, b_std, "ntk")


BOTH = Concat(((Relu(), conv(1.7, features=3)), (conv(0.6, 0.2, features=5),)))
NETS = {
    "dense": [Flatten(), dense(1.4, 0.3), Relu(), dense(1.2), Relu(), dense(0.9, 0.1)],
    "convolutions": [
        *(conv(1.5, 0.3), Relu(), conv(0.8, 0.1, (2, 1), 2), Relu(), Flatten(), dense(1.2)),
        *(Relu(), dense(0.7)),
    ],
    "side by side": [conv(1.5), BOTH, conv(0.8), Relu(), Flatten(), dense(1.2)],
    "sum": [conv(1.5), Sum((Relu(), conv(1.7)), (conv(0.6),)), Relu(), Flatten(), dense(1.2)],
    "pool": [conv(1.5, 0.3), Relu(), Pool(), dense(1.2)],
    "pool before a nonlinearity": [conv(1.5, 0.3), Relu(), Pool(), dense(1.2), Relu(), dense(0.7)],
}
X = np.random.default_rng(0).normal(size=(9, 4, 5, 2)).astype(np.float32)


def averaged(k, windows):
    """Averages [a, b, h, w, x, y] over windows that move along h and x, and along w and y."""
    (down, right), stride = windows.shape, windows.strides[0]
    h, w = ((size - n) // stride + 1 for size, n in zip(k.shape[2:4], windows.shape, strict=True))
    total = 0
    for i in range(down):
        for j in range(right):
            rows, columns = (stride * np.arange(n) + start for n, start in ((h, i), (w, j)))
            total = total + k[:, :, rows][:, :, :, columns][..., rows, :][..., columns]
    return total / (down * right)


def rectified(k):
    """Cho and Saul's arc-cosine kernels of orders 1 and 0."""
    std = np.sqrt(np.einsum("aahwhw->ahw", k))
    size = std[:, None, :, :, None, None] * std[None, :, None, None]
    cosine = np.clip(k / size, -1, 1)
    angle = np.arccos(cosine)
    values = size * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)
    return values, (np.pi - angle) / (2 * np.pi)


def by_loops(steps, k, t):
    for step in steps:
        if isinstance(step, Affine):
            k, t = (averaged(a, step.windows) if step.windows else a for a in (k, t))
            k = step.w_std**2 * k + (step.b_std or 0) ** 2
            t = k + step.w_std**2 * t
        elif isinstance(step, Relu):
            k, slopes = rectified(k)
            t = slopes * t
        elif isinstance(step, Pool):
            k, t = (a.mean((2, 3, 4, 5), keepdims=True) for a in (k, t))
        elif isinstance(step, Flatten):
            same = (np.einsum("abhwhw->ab", a) / np.prod(a.shape[2:4]) for a in (k, t))
            k, t = (a[..., None, None, None, None] for a in same)
        else:
            ends = [by_loops(path, k, t) for path in step.paths]
            shares = (3 / 8, 5 / 8) if isinstance(step, Concat) else (1, 1)
            k, t = (
                sum(s * e for s, e in zip(shares, es, strict=True))
                for es in zip(*ends, strict=True)
            )
    return k, t


@pytest.mark.parametrize("name", NETS)
def test_kernels_are_those_of_all_pairs_of_positions(name):
    k = np.einsum("ahwc,bxyc->abhwxy", X.astype(float), X) / X.shape[-1]
    nngp, ntk = (a[..., 0, 0, 0, 0] for a in by_loops(NETS[name], k, 0 * k))
    found = recursion.kernel(tuple(NETS[name]), X[:5], X[5:])
    np.testing.assert_allclose(found, ntk[:5, 5:], rtol=2e-5, atol=1e-6)
    if name == "convolutions":
        found = recursion.kernel(tuple(NETS[name]), X, None, "nngp")
        np.testing.assert_allclose(found, nngp, rtol=1e-4, atol=1e-6)


def test_two_batches_are_the_same_if_all_of_their_examples_are():
    def same(one, other):
        return recursion._same(
            *(recursion.examples(tuple(NETS["dense"]), jnp.array(x)) for x in (one, other))
        )

    assert same(X, X)
    assert not same(X, np.concatenate([X[:8], X[8:] + 1]))
    assert not same(X, np.concatenate([X[:8], 2 * X[8:]]))
    assert not same(X, X[::-1])
    assert not same(X, X[:4])


def test_a_tile_has_as_many_covariances_as_a_cache_holds():
    for name, shape, numbers in (
        ("convolutions", (33, 33, 1), 32**2),
        ("pool", (9, 9, 1), 8**4),
        ("dense", (8, 8, 1), 1),
    ):
        rows, columns = recursion.tile_sides(tuple(NETS[name]), shape, 10_000, 10_000)
        most = tile_sizes._NUMBERS_A_TILE["cpu"]
        assert rows * columns * numbers <= most
        assert rows * columns * numbers > 0.5 * most or rows > 0.9 * tile_sizes.largest_side()


def test_a_transform_acts_on_the_patches_of_each_example():
    transform = np.random.default_rng(1).normal(size=(40, 40)).astype(np.float32)
    steps = tuple(NETS["dense"])
    found = recursion.kernel(steps, X[:2], X[2:4], transform=transform)
    rows = (X.reshape(9, -1) @ transform).reshape(X.shape)
    np.testing.assert_allclose(found, recursion.kernel(steps, rows[:2], rows[2:4]), rtol=1e-4)
