"""Bytes a pass of a compiled loop: of what is not fused; slices as slices, none on the chip."""

import jax
import jax.numpy as jnp
import pytest

from lsa_jax.preflight import traffic

N = 64
ARRAY = N * N * 4  # bytes

PROGRAM = """HloModule jit_f

%fused_slice (p.0: f32[8,64,64], p.1: s32[]) -> f32[1,64,64] {
  %p.1 = s32[] parameter(1)
  %p.0 = f32[8,64,64]{2,1,0:T(8,128)} parameter(0)
  %zero = s32[] constant(0)
  ROOT %slice.1 = f32[1,64,64]{2,1,0:T(8,128)S(1)} dynamic-slice(%p.0, %p.1, %zero, %zero)
}

%fused_update (q.0: f32[64,64], q.1: f32[1,64], q.2: s32[]) -> f32[64,64] {
  %q.0 = f32[64,64]{1,0} parameter(0)
  %q.1 = f32[1,64]{1,0} parameter(1)
  %q.2 = s32[] parameter(2)
  %none = s32[] constant(0)
  ROOT %update.1 = f32[64,64]{1,0} dynamic-update-slice(%q.0, %q.1, %q.2, %none)
}

%body (arg: (s32[], f32[8,64,64], f32[64,64])) -> (s32[], f32[8,64,64], f32[64,64]) {
  %arg = (s32[], f32[8,64,64]{2,1,0:T(8,128)}, /*index=2*/f32[64,64]{1,0}) parameter(0)
  %i = s32[]{:T(128)S(6)} get-tuple-element(%arg), index=0
  %all = f32[8,64,64]{2,1,0:T(8,128)} get-tuple-element(%arg), index=1
  %out = f32[64,64]{1,0} get-tuple-element(%arg), index=2
  %one = f32[1,64,64]{2,1,0:T(8,128)S(1)} fusion(%all, %i), kind=kLoop, calls=%fused_slice
  %kept = f32[64,64]{1,0:T(8,128)S(1)} bitcast(%one)
  %copy-start = (bf16[64,64]{1,0:S(1)}, bf16[64,64]{1,0}, u32[]) copy-start(%kept)
  %copy-done = bf16[64,64]{1,0:S(1)} copy-done(%copy-start)
  %row = f32[1,64]{1,0} reduce(%kept, %copy-done), to_apply=%add
  %next = f32[64,64]{1,0} fusion(%out, %row, /*index=2*/%i), kind=kLoop, calls=%fused_update
  ROOT %result = (s32[], f32[8,64,64]{2,1,0}, f32[64,64]{1,0}) tuple(%i, %all, %next)
}

ENTRY %main (x: f32[8,64,64]) -> f32[64,64] {
  %x = f32[8,64,64]{2,1,0:T(8,128)} parameter(0)
  %loop = (s32[], f32[8,64,64]{2,1,0}, f32[64,64]{1,0}) while(%start), condition=%c, body=%body
  ROOT %found = f32[64,64]{1,0} get-tuple-element(%loop), index=2
}
"""


def test_slices_count_as_slices_updates_in_place_and_nothing_that_stays_on_the_chip():
    row, copied_and_its_flag = N * 4, ARRAY / 2 + 4
    expected = ARRAY + copied_and_its_flag + row + (row + row)
    assert traffic.loop_bytes(PROGRAM) == expected


@pytest.mark.parametrize(
    ("line", "other", "more"),
    [
        # An update that waits on the chip is written to memory all the same.
        ("  %q.1 = f32[1,64]{1,0} parameter(1)", "  %q.1 = f32[1,64]{1,0:S(1)} parameter(1)", 0),
        # Who asks for more than an update's or a slice's place reads the whole.
        ("  %none = ", "  %all = f32[64,64]{1,0:S(1)} negate(%q.0)\n  %none = ", ARRAY),
        ("  %zero = ", "  %all = f32[64]{0:S(1)} reduce(%p.0)\n  %zero = ", 7 * ARRAY),
    ],
)
def test_what_a_fusion_does_with_an_array_says_how_much_of_it_moves(line, other, more):
    assert PROGRAM.count(line) == 1
    changed = traffic.loop_bytes(PROGRAM.replace(line, other))
    assert changed == traffic.loop_bytes(PROGRAM) + more


def test_without_just_one_loop_nothing_is_said():
    assert traffic.loop_bytes("HloModule jit_f\n") is None
    assert traffic.loop_bytes(PROGRAM + PROGRAM.replace("%body", "%other")) is None


def test_a_program_without_a_loop_moves_what_its_entry_does():
    entry = PROGRAM.replace("while(%start), condition=%c, body=%body", "fusion(%x), calls=%none")
    assert traffic.program_bytes(entry) == 8 * ARRAY + (4 + 8 * ARRAY + ARRAY)
    assert traffic.program_bytes(PROGRAM) is None
    form = jax.ShapeDtypeStruct((N, N), jnp.float32)
    product = jax.jit(jnp.dot).lower(form, form).compile()
    assert traffic.program_bytes(product.as_text()) == 3 * ARRAY


def test_products_of_a_loop_that_xla_compiled_read_two_matrices_and_write_one():
    w, form = jnp.eye(N), jax.ShapeDtypeStruct((N, N), jnp.float32)
    steps = jax.ShapeDtypeStruct((), jnp.int32)
    # Two products, as what one alone writes would be copied back.
    loop = jax.jit(lambda n, x: jax.lax.fori_loop(0, n, lambda _, x: x @ w @ w, x))
    found = traffic.loop_bytes(loop.lower(steps, form).compile().as_text())
    assert found == pytest.approx(2 * 3 * ARRAY, rel=0.01)
