import jax
import numpy as np
from small_sweeps import maker

from lsa_jax.experiments.transformers import settings
from lsa_jax.experiments.transformers.sampler import random_lists
from lsa_jax.experiments.transformers.streams import Seed
from lsa_jax.experiments.transformers.tasks import make_lists

make = maker(settings, {"sweep.cases": ((20, 5, 4),)})


def test_cyclic_lists_have_the_configurations_step_and_shift():
    """Figure 4.1's: L_a = a + s, a + 2 s, a + 3 s, a and pi(a) = a + shift, modulo L."""
    task = make_lists(make(lists="cyclic", list_step=3, label_shift=7)[1][0].config)
    a = np.arange(20)
    np.testing.assert_array_equal(task.pi, (a + 7) % 20)
    np.testing.assert_array_equal(task.lists, np.stack([a + 3, a + 6, a + 9, a], 1) % 20)


def test_random_lists_are_drawn_by_the_points_seed():
    first, second = (make_lists(p.config) for p in make(lists="random", sweep__seed=(0, 5))[1])
    key = jax.random.fold_in(jax.random.key(5), Seed.LISTS)
    np.testing.assert_array_equal(second.lists, random_lists(key, 20, 4).lists)
    np.testing.assert_array_equal(second.pi, random_lists(key, 20, 4).pi)
    assert (first.pi != second.pi).any() and (first.lists != second.lists).any()
