"""A tile's program: what memory it takes, and which of several sizes is chosen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices import programs
from lsa_jax.kernels.matrices.programs import TileProgram
from lsa_jax.kernels.matrices.staged import Stages

FEATURES = 50


def _points(n, numbers=3):
    return np.random.default_rng(n).normal(size=(n, numbers)).astype(np.float32)


def _products():
    """Returns stages that keep 50 numbers an example, and need no more than they keep."""

    def features(x):
        return jnp.tile(x[:, :1], (1, FEATURES))

    return Stages(features, lambda f1, f2: f1 @ f2.T)


def _compiled(stages, n1, n2, numbers=3):
    x1, x2 = _points(n1, numbers), _points(n2, numbers)
    return programs.compile_tile(stages, x1, x2, np.dtype(np.float32), (n1, n2))


@pytest.fixture
def sizes(monkeypatch):
    """Compiles nothing: a tile takes what a function of its shape says. Returns what was tried."""
    tried = []

    def install(memory):
        def compile_tile(stages, x1, x2, dtype, shape):
            tried.append(shape)
            return TileProgram(shape, (len, len), max, int(memory(*shape)), (1, 1))

        monkeypatch.setattr(programs, "compile_tile", compile_tile)
        return tried

    return install


def _choose(n1, n2, limit, num_devices=1):
    dtype = np.dtype(np.float32)
    return programs.choose(_products(), _points(n1), _points(n2), dtype, limit, num_devices)


def test_a_tile_holds_both_sides_and_its_result():
    program = _compiled(_products(), 40, 60)
    assert program.shape == (40, 60) and program.spare == 0
    assert program.held == (4 * 40 * FEATURES, 4 * 60 * FEATURES)
    least = sum(program.held) + 4 * 40 * 60
    assert least <= program.memory <= 1.1 * least


def test_what_preparing_a_side_needs_beside_them_counts_where_it_is_more():
    wide = 10_000  # numbers of an example, of which one is kept
    program = _compiled(Stages(lambda x: x[:, :1], lambda f1, f2: f1 @ f2.T), 5, 8, wide)
    assert program.held == (4 * 5, 4 * 8)
    least = 4 * 8 * wide  # of the longer side's examples
    assert least <= program.memory <= 1.1 * least


def test_a_tile_that_takes_just_the_limit_is_taken(sizes):
    tried = sizes(lambda rows, columns: 100 * rows * columns)
    assert _choose(50, 50, 100 * 50 * 50).shape == (50, 50)
    programs.check_memory(TileProgram((5, 7), (len, len), max, 100, (1, 1)), 100, "")
    with pytest.raises(InputError, match="memory_limit is 99 bytes, and a tile of 5 x 7 pairs"):
        programs.check_memory(TileProgram((5, 7), (len, len), max, 100, (1, 1)), 99, "")
    assert tried == [(50, 50)]


def test_sides_are_even_shares_of_the_longer_axis_and_at_least_halved(sizes):
    tried = sizes(lambda rows, columns: 100 * rows * columns)
    program = _choose(250, 100, 100 * 60 * 60)
    # 94 pairs a side would fit if memory grew with pairs, and a third of 250 is 84; then its half.
    assert tried == [(250, 100), (84, 84), (42, 42)] and program.shape == (42, 42)


def test_a_pair_that_takes_more_than_the_limit_is_refused(sizes):
    tried = sizes(lambda rows, columns: 1000 * rows * columns)
    with pytest.raises(InputError, match="tile of 1 x 1 pairs takes 1e.03; accepted: a higher"):
        _choose(30, 30, 999)
    assert tried[-1] == (1, 1)


@pytest.mark.parametrize("power, side", [(2, 100), (1, 200)], ids=["pairs", "side"])
def test_a_tile_is_made_to_suit_the_cache_where_memory_grows_with_pairs(power, side, sizes):
    """Where it grows with the side, a quarter of the pairs gives back half of the memory."""
    tried = sizes(lambda rows, columns: 4 * 8e6 * (rows / 200) ** power)
    assert _choose(200, 200, 1e9).shape == (side, side)
    assert tried == [(200, 200), (100, 100)]


def test_a_tile_that_just_fits_the_cache_stays(sizes):
    tried = sizes(lambda rows, columns: 8e6)
    _choose(200, 200, 1e9)
    assert tried == [(200, 200)]


def test_several_devices_have_several_tiles_each_but_no_small_ones(sizes):
    sizes(lambda rows, columns: rows * columns)
    for num_devices, n, side in ((1, 256, 256), (4, 512, 128), (4, 100, 50), (5, 768, 128)):
        assert _choose(n, n, 1e9, num_devices).shape == (side, side)


def test_a_compiler_without_memory_gets_a_quarter_until_there_is_nothing_to_cut(monkeypatch, sizes):
    tried = sizes(lambda rows, columns: 10)
    compile_tile = programs.compile_tile

    def refuse(largest, message):
        def compile_or_not(stages, x1, x2, dtype, shape):
            program = compile_tile(stages, x1, x2, dtype, shape)
            if max(shape) > largest:
                raise jax.errors.JaxRuntimeError(message)
            return program

        tried.clear()
        monkeypatch.setattr(programs, "compile_tile", compile_or_not)

    refuse(20, "RESOURCE_EXHAUSTED: Ran out of memory")
    assert _choose(300, 40, 1e9).shape == (8, 8)
    assert tried == [(150, 40), (34, 34), (8, 8)]  # even shares of the longer side
    refuse(0, "RESOURCE_EXHAUSTED: Ran out of memory")
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        _choose(64, 64, 1e9)
    assert tried == [(64, 64), (16, 16), (4, 4), (1, 1)]
    refuse(0, "INTERNAL: no such instruction")
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        _choose(64, 64, 1e9)
    assert tried == [(64, 64)]


def test_the_largest_side_is_the_platforms(monkeypatch):
    assert [programs.largest_side(n) for n in (7, 256, 5000)] == [7, 256, 256]
    monkeypatch.setattr(programs.backend, "is_cpu", lambda: False)
    assert programs.largest_side(5000) == 1024


def test_float64_is_not_to_be_had_of_a_kernel_in_less():
    x, tile = _points(4), (4, 4)
    rows, columns, pairs = programs.lower(_products(), x, x, np.dtype(np.float32), tile)
    assert rows is columns and pairs.out_info.shape == tile
    with pytest.raises(InputError, match="dtype is 'float64', and kernel turns inputs of flo"):
        programs.lower(_products(), x, x, np.dtype(np.float64), tile)


def test_a_kernel_of_another_shape_is_refused():
    x = _points(4)
    summed = Stages(lambda x: x, lambda x1, x2: jnp.sum(x1 @ x2.T, axis=1))
    with pytest.raises(InputError, match=r"\(4, 3\) and \(4, 3\) into \(4,\); accepted: \(4, 4\)"):
        programs.lower(summed, x, x, np.dtype(np.float32), (4, 4))
