"""The types that the package states are checked while its tests run, shapes and all."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from lsa_jax import data, kernels, models
from lsa_jax.training import LOSSES


def test_arrays_of_wrong_shapes_are_refused_where_they_are_handed_over(key):
    with pytest.raises(jaxtyping.TypeCheckError, match="targets"):
        LOSSES["squared_error"](jnp.ones((3, 2)), jnp.ones((4, 2)))
    with pytest.raises(jaxtyping.TypeCheckError, match="gram_train"):
        kernels.regress(np.eye(3)[:2], np.ones((3, 1)), np.ones((1, 3)), ridge=0.1)
    with pytest.raises(jaxtyping.TypeCheckError, match="strides"):
        models.Conv(3, strides=2)
    with pytest.raises(jaxtyping.TypeCheckError, match="image_size"):
        data.Composition("28", 42, "fixed_corner", "none")
    model = models.network([models.Dense(1)])
    with pytest.raises(jaxtyping.TypeCheckError, match="inputs"):
        jax.eval_shape(model.apply, model.init(key, (2,)), jnp.ones((3, 2), int))


def test_a_result_that_is_not_what_was_stated_is_refused_too():
    def kernel(x1, x2, get):
        return np.zeros((2, 2))  # of numpy, where one of jax was promised

    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        kernels.infinite_kernel(kernel)(jnp.ones((2, 3)))


@pytest.mark.usefixtures("unchecked")
def test_without_the_checks_it_is_the_package_that_refuses():
    with pytest.raises(ValueError, match="Conv.strides is 2; accepted: a pair of whole numbers"):
        models.Conv(3, strides=2)
