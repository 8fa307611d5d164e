"""ResNet-20 is the paper's, and evaluates with the statistics that it is given."""

import jax
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.stability.cifar_resnet import (
    GivenBatchNorm,
    PadChannels,
    apply_with,
    batch_statistics,
    cifar_resnet,
)
from lsa_jax.models import Conv, Dense, GlobalAvgPool, Relu, network


def test_resnet_20_has_as_many_parameters_as_in_the_paper(key):
    shapes = jax.eval_shape(lambda: cifar_resnet().init(key, (32, 32, 3)))
    sizes = [leaf.size for leaf in jax.tree.leaves(shapes)]
    # Convolutions, scales and shifts, readout.
    convolutions = 9 * (3 * 16 + 7 * 16**2 - 16**2 + 16 * 32 + 5 * 32**2 + 32 * 64 + 5 * 64**2)
    assert sum(sizes) == convolutions + 2 * 7 * (16 + 32 + 64) - 2 * (32 + 64) + 650


def test_a_batch_with_its_own_statistics_gives_the_outputs_of_training(key):
    layers = (Conv(4), GivenBatchNorm(), Relu(), PadChannels(6, 2), GlobalAvgPool(), Dense(3))
    model = network(layers, parameterization="standard")

    @jax.jit
    def compute(key):
        params = model.init(key, (4, 4, 1))
        inputs = jax.random.normal(key, (6, 4, 4, 1))
        given = batch_statistics(layers, params, inputs)
        outputs = apply_with(layers, params, given, inputs)
        return outputs, model.apply(params, inputs), apply_with(layers, params, given, inputs[:2])

    outputs, trained, first = compute(key)
    np.testing.assert_allclose(outputs, trained, rtol=1e-4, atol=1e-5)
    # With statistics given, an example's outputs do not depend on the others.
    np.testing.assert_allclose(first, outputs[:2], rtol=1e-4, atol=1e-5)


def test_depths_that_do_not_exist_are_named():
    with pytest.raises(InputError, match="6 n \\+ 2"):
        cifar_resnet(10)
