"""Operations of a program against closed forms, and its least time by the roofline."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from lsa_jax import costs


def shape(*sizes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def test_operations_of_products_and_convolutions_are_those_of_closed_forms():
    def work(a, b, image, filters):
        return a @ b, lax.conv(image, filters, (1, 1), "VALID")

    found = costs.count(work, shape(3, 4), shape(4, 5), shape(1, 2, 9, 9), shape(7, 2, 3, 3))
    assert found.products == {"default": 2 * 3 * 4 * 5 + 2 * (7 * 7 * 7) * (2 * 3 * 3)}


def test_loops_count_as_often_as_they_run_and_choices_by_their_dearest_branch():
    def work(a, flag):
        looped, _ = lax.scan(lambda x, _: (x @ a, None), a, length=6)
        return looped, lax.cond(flag, lambda: a @ a @ a, lambda: a)

    found = costs.count(work, shape(4, 4), shape(dtype=bool))
    assert found.products == {"default": (6 + 2) * 2 * 4**3}
    assert not found.has_open_loop


def test_products_are_told_apart_by_what_they_multiply_in():
    def work(a, b):
        return jnp.dot(a, a, precision="highest"), b @ b

    found = costs.count(work, shape(4, 4), shape(4, 4, dtype=jnp.bfloat16))
    assert found.products == {"highest": 2 * 4**3, "bfloat16": 2 * 4**3}


def test_a_part_of_a_batch_counts_its_own_operations_alone():
    def work(a):
        return lax.psum(a @ a, "parts")

    traced = jax.make_jaxpr(jax.vmap(work, axis_name="parts"))(shape(5, 4, 4))
    found = costs.count_traced(traced, parts=5)
    assert found.products == {"default": 2 * 4**3}


def test_a_loop_by_the_data_is_counted_once_and_said_to_be():
    def work(a, n):
        return lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] @ a, s[1] + 1), (a, 0))

    found = costs.count(work, shape(4, 4), shape(dtype=jnp.int32))
    assert found.products == {"default": 2 * 4**3}
    assert found.has_open_loop


def test_the_roofline_is_the_dearer_of_operations_and_bytes():
    chip = costs.Chip("gpu", "a chip", 1e9, 1e9, {"default": 1e12, "highest": 1e11})
    many = costs.Count({"default": 4e12, "highest": 2e11}, 5e10, 3e9, False)
    assert costs.roofline(many, chip) == (pytest.approx(6.0), "operations")
    assert costs.roofline(many._replace(bytes=7e9), chip) == (pytest.approx(7.0), "bytes")
    # Outside products one operation a lane and cycle, beside the products.
    slow = chip._replace(flops={"default": 1e12, "highest": 1e11, "vector": 5e9})
    assert costs.roofline(many, slow) == (pytest.approx(10.0), "operations")
    for unknown in (costs.CHIPS["cpu"], chip._replace(bandwidth=None), chip._replace(flops={})):
        assert costs.roofline(many, unknown) == (None, "")


def test_bytes_are_those_of_products_sums_and_the_ends():
    form = jax.ShapeDtypeStruct((4, 4), jnp.float32)
    assert costs.count(lambda a: jnp.tanh(a) @ a, form).bytes == (3 + 2) * 4 * 16
    assert costs.count(lambda a: jnp.sin(a).sum(axis=0), form).bytes == 4 * (16 + 4) + 4 * (16 + 4)


def test_operations_are_counted_where_the_default_device_does_not_count(uncounted):
    form = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    assert jax.jit(jnp.dot).lower(form, form).cost_analysis() is None
    assert costs.count_flops(jnp.dot, form, form) == 2 * 8**3


def test_what_a_gradient_keeps_is_counted_and_less_of_it_with_checkpoints():
    w, x = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((4, 4), (100, 4)))
    kept = costs.bytes_for_gradient(lambda w, x: jnp.sum(jnp.sin(x @ w)), w, x)
    # The inputs, and the cosine of the sine's argument.
    assert 2 * 400 * 4 <= kept <= 2 * 400 * 4 + 16 * 4
    layers = jax.ShapeDtypeStruct((8, 4, 4), jnp.float32)

    def deep(layers, x, wrap):
        block = wrap(lambda x, w: (jnp.sin(jnp.sin(jnp.sin(x @ w))), None))
        return jnp.sum(lax.scan(block, x, layers)[0])

    plain, less = (
        costs.bytes_for_gradient(lambda p, x, wrap=wrap: deep(p, x, wrap), layers, x)
        for wrap in (lambda f: f, jax.checkpoint)
    )
    assert 8 * 1600 <= less < plain / 3


def test_zeros_between_the_inputs_of_a_strided_gradient_are_not_counted():
    x, w = jnp.ones((1, 3, 9, 9)), jnp.ones((5, 3, 3, 3))

    def convolve(x, w):
        return lax.conv(x, w, (2, 2), "VALID")

    forward = costs.count(convolve, x, w).products["default"]
    back = costs.count(
        lambda x, w, y: jax.vjp(lambda x: convolve(x, w), x)[1](y), x, w, convolve(x, w)
    )
    # Its input's positions times window, a quarter of them multiplied: edges count too.
    assert forward == 2 * 16 * 5 * 27
    assert back.products["default"] - forward == 2 * 81 * 3 * 5 * 9 / 4
