"""Random networks of the package's layers, as hypothesis draws them for tests of several rooms."""

import numpy as np
from hypothesis import strategies as st

from lsa_jax import models

NONLINEARITIES = (
    *(models.Relu(), models.LeakyRelu(0.3), models.ABRelu(-0.3, 1.7), models.Abs()),
    *(models.Erf(), models.Gelu(), models.Sin(0.8, 1.1, 0.4)),
)


def _after(size, window, stride, padding):
    return -(-size // stride) if padding == "SAME" else (size - window) // stride + 1


@st.composite
def stacks(draw, width=3):
    """Returns layers that the recursion has, and the shape of an example."""
    image = draw(st.booleans())
    shape = tuple(draw(st.integers(2, 4)) for _ in range(2 * image)) + (draw(st.integers(1, 3)),)
    sides = shape[:-1]

    def scales():
        return {"w_std": draw(st.floats(0.6, 1.6)), "b_std": draw(st.none() | st.floats(0.1, 0.6))}

    def windows():
        nonlocal sides
        window = tuple(draw(st.integers(1, min(3, size))) for size in sides)
        strides = tuple(draw(st.integers(1, 2)) for _ in sides)
        padding = draw(st.sampled_from(["SAME", "VALID"]))
        given = zip(sides, window, strides, strict=True)
        sides = tuple(_after(*each, padding) for each in given)
        return window, strides, padding

    def affine(*, same=False):
        if not sides or draw(st.integers(0, 3)) == 0:
            return models.Dense(width, **scales())
        return models.Conv(width, *(((3, 2), (1, 1), "SAME") if same else windows()), **scales())

    def nonlinearity():
        return draw(st.sampled_from(NONLINEARITIES))

    layers = [affine()]
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["plain", "norm", "residual", "side by side", "pool"]))
        if kind == "residual":
            shortcut = draw(st.sampled_from([(), (models.Dense(width, **scales()),)]))
            layers.append(models.Residual((nonlinearity(), affine(same=True)), shortcut))
            continue
        layers += [models.LayerNorm()] * (kind == "norm") + [nonlinearity()]
        if kind == "side by side":
            layers[-1:] = [models.Concat(((nonlinearity(),), (affine(same=True),)))]
        if kind == "pool" and sides:
            layers.append(draw(st.sampled_from([models.AvgPool, models.SumPool]))(*windows()))
        layers.append(affine())
    layers.append(nonlinearity())
    if image:
        layers.append(
            draw(
                st.sampled_from([models.Flatten(), models.GlobalAvgPool(), models.GlobalSumPool()])
            )
        )
    return [*layers, models.Dense(2, **scales())], shape


def examples(shape, n=5):
    """Returns some in general position, an equal, an opposite and a large one, and one of zeros."""
    x = np.random.default_rng(0).normal(size=(n, *shape))
    return np.concatenate([x, x[:1], -x[:1], 1e3 * x[1:2], 0 * x[:1]]).astype(np.float32)
