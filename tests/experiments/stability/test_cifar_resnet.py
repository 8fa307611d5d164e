"""ResNet-20 is the paper's, and evaluates with the statistics that it is given."""

import jax
import numpy as np
import pytest
from by_hand import convolved

from lsa_jax.experiments.stability.cifar_resnet import cifar_resnet


def test_resnet_20_has_as_many_parameters_as_in_the_paper(key):
    shapes = jax.eval_shape(lambda: cifar_resnet().init(key, (32, 32, 3)))
    sizes = [leaf.size for leaf in jax.tree.leaves(shapes)]
    # Convolutions, scales and shifts, readout.
    convolutions = 9 * (3 * 16 + 7 * 16**2 - 16**2 + 16 * 32 + 5 * 32**2 + 32 * 64 + 5 * 64**2)
    assert sum(sizes) == convolutions + 2 * 7 * (16 + 32 + 64) - 2 * (32 + 64) + 650


def _normed(x, params):
    variance = x.var(axis=(0, 1, 2)) + 1e-5
    return (x - x.mean(axis=(0, 1, 2))) / np.sqrt(variance) * params["scale"] + params["shift"]


def _by_hand(params, x, blocks):
    """He et al. (2016), section 4.2 with option A: three groups of so many blocks."""
    x = np.maximum(
        _normed(convolved(x, params["Conv_0"]["weight"], (1, 1), "SAME"), params["BatchNorm_0"]), 0
    )
    for place in range(3 * blocks):
        branch = params[f"Residual_{place}"]["branch"]
        first = place in (blocks, 2 * blocks)  # of the second and of the third group
        strides = (2, 2) if first else (1, 1)
        y = convolved(x, branch["Conv_0"]["weight"], strides, "SAME")
        y = np.maximum(_normed(y, branch["BatchNorm_0"]), 0)
        y = _normed(convolved(y, branch["Conv_1"]["weight"], (1, 1), "SAME"), branch["BatchNorm_1"])
        if first:
            half = x.shape[3] // 2
            x = np.pad(x[:, ::2, ::2], ((0, 0), (0, 0), (0, 0), (half, half)))
        x = np.maximum(x + y, 0)
    return x.mean(axis=(1, 2)) @ params["Dense_0"]["weight"] + params["Dense_0"]["bias"]


def test_outputs_are_those_of_the_paper_written_as_loops(key):
    """Sides 8, 4 and 2, and as many channels as the groups have; all parameters are random."""
    model, generator = cifar_resnet(14, 3, channels=2), np.random.default_rng(0)

    def draw(*shape):
        return generator.normal(size=shape).astype(np.float32)

    # Not compiled: the test is of the use of parameters, not of their draw.
    forms = jax.eval_shape(lambda: model.init(key, (8, 8, 3)))
    params = jax.tree.map(lambda form: 0.5 * draw(*form.shape), forms)
    inputs = draw(4, 8, 8, 3)
    outputs = jax.jit(model.apply)(params, inputs)
    expected = _by_hand(jax.tree.map(np.float64, params), np.float64(inputs), 2)
    np.testing.assert_allclose(outputs, expected, rtol=2e-3, atol=2e-4 * np.abs(expected).max())


def test_weights_are_drawn_with_variance_2_over_fan_in(key):
    params = jax.jit(lambda key: cifar_resnet(8, channels=16).init(key, (8, 8, 3)))(key)
    for weight in (params["Conv_0"], params["Residual_2"]["branch"]["Conv_1"], params["Dense_0"]):
        values = np.asarray(weight["weight"])
        fan_in = values[..., 0].size
        assert values.var() * fan_in == pytest.approx(2, rel=6 * (2 / values.size) ** 0.5)
    assert not np.any(params["Dense_0"]["bias"])
