"""Layouts: few copies, and the same results however functions are mapped."""

import gc
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax import training
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.models.model import Model
from lsa_jax.parallel import BatchLayout, ReplicaLayout

MEGABYTE = 1 << 20


@pytest.fixture
def most_held(monkeypatch):
    """Returns a list of the bytes on the first device whenever something is put on one."""
    first, held = jax.devices()[0], []
    put = jax.device_put

    def watched(*arguments, **settings):
        found = put(*arguments, **settings)
        shards = [s for a in jax.live_arrays() for s in a.addressable_shards if s.device == first]
        held.append(sum(shard.data.nbytes for shard in shards))
        return found

    monkeypatch.setattr(jax, "device_put", watched)
    return held


@pytest.mark.parametrize("layout", [ReplicaLayout(8), BatchLayout(8)], ids=["replicas", "batch"])
def test_copies_do_not_pile_up_on_the_first_device(layout, most_held):
    before = sum(a.nbytes for a in jax.live_arrays())
    data = np.arange(MEGABYTE, dtype=np.float32)
    shared = layout.share(data)
    assert len(shared) == len(jax.devices()) == 8
    for shard in shared.addressable_shards:
        np.testing.assert_array_equal(shard.data[0], data)
    assert max(most_held) - before <= 2 * data.nbytes


def test_what_is_spread_may_be_given_away_and_leaves_its_origin_as_it_is():
    layout = ReplicaLayout(4)
    states = {"numpy": np.ones((4, 3), np.float32), "jax": jnp.ones((4, 3))}
    change = layout.map(lambda state: jax.tree.map(lambda a: a + 1, state), 1, donate=True)
    found = layout.gather(change(layout.spread(states)))
    for name, value in states.items():
        np.testing.assert_array_equal(value, np.ones((4, 3)))
        np.testing.assert_array_equal(found[name], np.full((4, 3), 2))


@pytest.mark.skipif(sys.platform != "linux", reason="counts pieces of memory as Linux does")
def test_programs_of_ended_runs_are_let_go(key):
    """Linux aborts a process that holds too many pieces of memory, see vm.max_map_count."""
    data, pieces = Dataset(jnp.ones((4, 3)), jnp.ones((4, 1))), []
    for scale in range(4):
        model = Model(
            lambda key, shape: {"w": jnp.zeros((*shape, 1))},
            lambda params, x, scale=scale: scale * x @ params["w"],
            None,
        )
        loss = training.LOSSES["squared_error"]
        training.train(key, model, data, loss, optax.sgd(0.1), epochs=1, batch_size=2)
        gc.collect()
        pieces.append(Path("/proc/self/maps").read_text().count("\n"))
    assert pieces[3] - pieces[1] < 20, pieces


def test_layouts_of_no_replicas_and_batches_that_do_not_divide_are_refused():
    for layout, name in ((ReplicaLayout, "num_replicas"), (BatchLayout, "batch_size")):
        for count in (0, -8):
            with pytest.raises(InputError, match=f"^{name} is {count}; accepted"):
                layout(count)
    halves = BatchLayout(2, jax.devices()[:2])
    cut = halves.map(halves.part, 0)
    with pytest.raises(InputError, match=r"shape \(3, 1\); accepted on 2 devices: \[n, ...\]"):
        cut(halves.share(np.zeros((3, 1))))
