"""Convolutions of other libraries are computed as ours, with equal numbers and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from lsa_jax.models._convolutions import with_own_convolutions

LAYOUTS = [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NCHW", "HWIO", "NHWC")]


def network(layout, strides, padding):
    def apply(params, x):
        y = lax.conv_general_dilated(x, params["w"], strides, padding, dimension_numbers=layout)
        return jax.jit(lambda y: jax.nn.relu(y).sum((1, 2)))(y)

    return apply


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    st.sampled_from(LAYOUTS),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["SAME", "VALID", [(2, 0), (1, 3)]]),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_outputs_and_gradients_are_those_of_the_library(layout, strides, padding, window):
    keys = jax.random.split(jax.random.key(0))
    x = jnp.transpose(jax.random.normal(keys[0], (2, 7, 6, 3)),
                      ["NHWC".index(axis) for axis in layout[0]])  # fmt: skip
    w = jnp.transpose(jax.random.normal(keys[1], (*window, 3, 4)),
                      ["HWIO".index(axis) for axis in layout[1]])  # fmt: skip
    apply = network(layout, strides, padding)
    own = with_own_convolutions(apply)
    params = {"w": w}
    np.testing.assert_allclose(own(params, x), apply(params, x), atol=1e-5)
    found, expected = (jax.grad(lambda p, f=f: (f(p, x) ** 2).sum())(params) for f in (own, apply))
    np.testing.assert_allclose(found["w"], expected["w"], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("changed", [{"rhs_dilation": (2, 2)}, {"feature_group_count": 3}])
def test_groups_and_dilation_stay_as_they_are(changed):
    x = jnp.ones((1, 6, 6, 3))
    w = jnp.ones((2, 2, 3 // changed.get("feature_group_count", 1), 3))

    def apply(w, x):
        dims = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=dims, **changed)

    np.testing.assert_array_equal(with_own_convolutions(apply)(w, x), apply(w, x))
