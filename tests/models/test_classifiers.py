"""Parameters of the image classifiers by shape, accepted sizes, pooling windows."""

import jax
import jax.numpy as jnp
import numpy as np

from lsa_jax.models import wide_resnet


def shapes_of(model, input_shape):
    params = jax.eval_shape(lambda key: model.init(key, input_shape), jax.random.key(0))
    paths = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(p, simple=True, separator="/"): leaf.shape for p, leaf in paths}


def test_the_groups_of_a_residual_network_have_16_32_and_64_channels_and_strides():
    """Filters of 3 x 3 but in shortcuts; of the first block of each group alone there are some."""
    shapes = shapes_of(wide_resnet(2, 5, depth=16, norm="none", pool_window=3), (16, 16, 3))
    expected, before = {"Conv_0/weight": (3, 3, 3, 16)}, 16
    for group, channels in enumerate((32, 64, 128)):
        for block in range(2):
            name = f"Residual_{2 * group + block}"
            expected[f"{name}/branch/Conv_0/weight"] = (3, 3, before, channels)
            expected[f"{name}/branch/Conv_1/weight"] = (3, 3, channels, channels)
            if block == 0:
                expected[f"{name}/shortcut/Conv_0/weight"] = (1, 1, before, channels)
            before = channels
    # Of 16 x 16 places strides of 2 in the last two groups leave 4 x 4, and windows of 3 four.
    assert shapes == expected | {"Dense_0/weight": (4 * 128, 5)}


def test_windows_before_the_readout_are_averages_of_every_place(key):
    """81 averages a channel of 16 x 16 places; over 8 x 8 places one window is all of them."""
    model = wide_resnet(1, 3, pool_window=8)
    shapes = jax.eval_shape(lambda key: model.init(key, (64, 64, 3)), key)
    assert max(leaf.shape for leaf in jax.tree.leaves(shapes) if leaf.shape[-1] == 3)[0] == 81 * 64
    inputs = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype(np.float32)

    @jax.jit
    def both(key, inputs):
        whole, windows = wide_resnet(1, 3), wide_resnet(1, 3, pool_window=8)
        params = jax.tree.leaves(whole.init(key, (32, 32, 3)))
        structure = jax.tree.structure(windows.init(key, (32, 32, 3)))
        own = structure.unflatten(params)
        return whole.apply(whole.init(key, (32, 32, 3)), inputs), windows.apply(own, inputs)

    expected, found = both(key, jnp.asarray(inputs))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
