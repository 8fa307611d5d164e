"""The recursion's tile, compiled for a TPU that is not there, where the compiler is installed."""

import re

import jax
import jax.numpy as jnp
import pytest

from launch.preflight import _WITHOUT_DEVICES
from lsa_jax import backend, models
from lsa_jax.kernels.infinite import recursion
from lsa_jax.preflight import machines


def test_covariances_of_a_tile_stay_in_the_vector_memory_of_a_tpu(monkeypatch):
    pytest.importorskip("libtpu", reason="the compiler for TPUs: the extra preflight-tpu")
    for variable, value in _WITHOUT_DEVICES.items():
        monkeypatch.setenv(variable, value)
    machine = machines.parse("v5e:1x1")
    device = machines.compile_devices(machine)[0]
    kernel, shape, n = models.cnn().kernel, (28, 28, 1), 512
    with backend.built_for("tpu", machine.chip.memory, device=device):
        stages = kernel.stages(jax.ShapeDtypeStruct(shape, jnp.float32))
        images = jax.ShapeDtypeStruct((n, *shape), jnp.float32)
        examples = jax.eval_shape(stages.prepare, None, images)
        examples = jax.tree.map(backend.form, examples)
        rows, columns = recursion.tile_sides(kernel.steps, shape, n, n)
        text = jax.jit(stages.between).lower(None, examples, examples).compile().as_text()
    # Between one fusion and the next, the layout says where an array lies: S(1) is that memory.
    held = rf"= f32\[13,13,{rows},{columns}\]\{{([^}}]*)\}} get-tuple-element"
    layouts = re.findall(held, text)
    assert layouts
    assert all("S(1)" in layout for layout in layouts)
