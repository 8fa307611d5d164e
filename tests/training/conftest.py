"""Examples for tests of training."""

import jax
import jax.numpy as jnp
import pytest

from lsa_jax.data.dataset import Dataset


@pytest.fixture
def data(key):
    inputs = jax.random.normal(key, (37, 5))
    return Dataset(inputs, jax.nn.one_hot(jnp.argmax(inputs[:, :3], axis=-1), 3))
