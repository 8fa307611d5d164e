"""The pace of training: operations against a count by hand, and no share of an unknown peak."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.data.dataset import Dataset
from lsa_jax.models.model import Model
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.training import LOSSES, throughput
from lsa_jax.training.programs import Recipe, ReplicaState, Source

N, D, C = 64, 128, 256


def _recipe(apply):
    model = Model(lambda key, shape: {}, apply, None)
    layout = ReplicaLayout(2)
    return Recipe(model, LOSSES["squared_error"], None, {}, N, N, (), layout)


PARAMS = {"weight": jax.ShapeDtypeStruct((D, C), jnp.float32)}
BATCH = Dataset(*(jax.ShapeDtypeStruct((N, size), jnp.float32) for size in (D, C)))


def test_operations_of_a_linear_map_are_two_products():
    flops = throughput.gradient_flops(_recipe(lambda p, x: x @ p["weight"]), PARAMS, BATCH)
    # One product forward, one for the gradient of the weight, each 2 N D C; the rest is N C.
    assert flops == pytest.approx(4 * N * D * C, rel=0.02)


def _measure(seconds):
    source = Source.of(Dataset(np.zeros((100, D), np.float32), np.zeros((100, C), np.float32)))
    params = {"weight": np.zeros((2, D, C), np.float32)}
    state = ReplicaState(params, (), np.zeros(2, np.int32), np.zeros(2, np.int32))
    recipe = _recipe(lambda p, x: x @ p["weight"])
    return throughput.measure_throughput(recipe, source, state, None, seconds)


def test_the_first_epoch_counts_only_where_there_is_no_other():
    assert _measure([]) is None
    assert _measure([5.0]).examples_per_second == 2 * 100 / 5
    assert _measure([50.0, 4.0, 4.0, 100.0]).examples_per_second == 2 * 100 / 4


def test_the_share_of_the_peak_is_operations_over_what_the_devices_can_do(monkeypatch):
    assert _measure([5.0]).peak_fraction("float32") is None
    peaks = {"bfloat16": 2e9, "float32": 1e9}
    monkeypatch.setattr(throughput, "peak_flops", lambda kind: peaks)
    pace = _measure([1.0, 2.0])
    operations = 4 * D * C * pace.examples_per_second
    # Two replicas on two of the eight devices.
    assert pace.peak_fraction("float32") == pytest.approx(operations / 2e9, rel=0.02)
    assert pace.peak_fraction("bfloat16") == pytest.approx(operations / 4e9, rel=0.02)
