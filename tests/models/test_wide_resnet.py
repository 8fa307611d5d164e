import jax
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
