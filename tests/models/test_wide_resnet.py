import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.models import wide_resnet


def count(width_factor, depth, channels, classes, batch_norm):
    """Parameters by the paper's table: (window, inputs, outputs) of every convolution."""
    widths = [16 * width_factor, 32 * width_factor, 64 * width_factor]
    convs, norms, before = [(3, channels, 16)], [], 16
    for width in widths:
        for block in range((depth - 4) // 6):
            convs += [(3, before, width), (3, width, width)]
            convs += [(1, before, width)] if block == 0 else []
            norms += [before, width]
            before = width
    norms += [before]
    total = sum(window**2 * inputs * outputs for window, inputs, outputs in convs)
    return total + before * classes + (2 * sum(norms) if batch_norm else 0)


@pytest.mark.parametrize(
    ("width_factor", "depth", "norm"),
    [(10, 10, "batch"), (1, 28, "batch"), (2, 16, "none")],
)
def test_parameters_are_as_many_as_the_table_says(key, width_factor, depth, norm):
    model = wide_resnet(width_factor, 10, depth=depth, norm=norm)
    shapes = jax.eval_shape(lambda key: model.init(key, (32, 32, 3)), key)
    total = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    assert total == count(width_factor, depth, 3, 10, norm == "batch")


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
