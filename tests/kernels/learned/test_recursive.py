"""Recursive feature machines: the rule, the learned directions, and resumption."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax.errors import InputError
from lsa_jax.kernels.learned import recursive


def gaussian(x1, x2):
    squares = jnp.sum((x1[:, None] - x2[None]) ** 2, axis=-1)
    return jnp.exp(-squares / 20)


def of_gaussian(transform):
    transform = np.asarray(transform, np.float32)
    return lambda x1, x2: gaussian(x1 @ transform, x2 @ transform)


@pytest.fixture(scope="module")
def one_direction():
    """Inputs in 6 dimensions, of which a single direction decides the target."""
    x = np.random.default_rng(0).normal(size=(90, 6)).astype(np.float32)
    direction = np.array([1, 2, 0, 0, 0, -1]) / 6**0.5
    return x, np.sin(2 * x @ direction)[:, None], direction


def machine(data, *, kernel=of_gaussian, **settings):
    x, y, _ = data
    defaults = {"updates": 3, "points": 40, "key": jax.random.key(0)}
    return kernels.recursive_feature_machine(kernel, x[:60], y[:60], **defaults | settings)


def test_it_finds_the_direction_that_decides_and_predicts_better(one_direction):
    x, y, direction = one_direction
    found = machine(one_direction)
    values, vectors = np.linalg.eigh(found.transforms[-1])
    assert abs(vectors[:, -1] @ direction) > 0.95
    assert values[-1] > 2 * values[-2]

    def error(kernel):
        gram_test = kernels.gram(kernel, x[60:], x[:60])
        fit = kernels.regress(kernels.gram(kernel, x[:60]), y[:60], gram_test, ridge=1e-3)
        return np.mean((fit.predictions - y[60:]) ** 2)

    assert error(found.kernel) < 0.5 * error(gaussian)


def test_each_update_is_the_rule_written_out(one_direction):
    """Against the same by hand: dense gradients of all examples, one after the other."""
    x, y, _ = one_direction
    found = machine(one_direction, updates=2, points=60, ridge=1e-2, power=0.25)
    transform = np.eye(6)
    for learned in found.transforms[1:]:
        kernel = of_gaussian(transform)
        gram = np.asarray(kernel(x[:60], x[:60]), float)
        centred = y[:60] - y[:60].mean(0)
        weights = np.linalg.solve(gram + 1e-2 * np.trace(gram) / 60 * np.eye(60), centred)
        slope = jax.grad(lambda z, k=kernel, a=weights: (k(z[None], x[:60]) @ a)[0, 0])
        grads = np.stack([np.asarray(slope(z), float) for z in jnp.asarray(x[:60])])
        values, vectors = np.linalg.eigh(grads.T @ grads)
        transform = vectors @ np.diag(values**0.25) @ vectors.T
        transform *= 6**0.5 / np.linalg.norm(transform)
        np.testing.assert_allclose(learned, transform, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(found.transforms, axis=(1, 2)), 6**0.5)


class _Killed(Exception):
    pass


def test_a_killed_machine_goes_on_with_the_same_bits(one_direction, tmp_path, monkeypatch):
    whole = machine(one_direction, directory=tmp_path / "whole")
    calls, real = [], recursive.regress

    def killed(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise _Killed
        return real(*arguments, **options)

    monkeypatch.setattr(recursive, "regress", killed)
    with pytest.raises(_Killed):
        machine(one_direction, directory=tmp_path / "killed")
    assert (tmp_path / "killed" / "transforms.npz").exists()
    resumed = machine(one_direction, directory=tmp_path / "killed")
    assert len(calls) == 4  # the first update was not done again
    np.testing.assert_array_equal(resumed.transforms, whole.transforms)
    assert [path.name for path in (tmp_path / "killed").glob("*")] == ["transforms.npz"]
    more = machine(one_direction, directory=tmp_path / "killed", updates=4)
    np.testing.assert_array_equal(more.transforms[:4], whole.transforms)
    fewer = machine(one_direction, directory=tmp_path / "killed", updates=1)
    np.testing.assert_array_equal(fewer.transforms, whole.transforms[:2])


def test_another_machines_directory_is_refused(one_direction, tmp_path):
    machine(one_direction, directory=tmp_path, updates=1)
    x, y, direction = one_direction
    others = (
        {"ridge": 0.1},
        {"key": jax.random.key(1)},
        {"kernel": lambda t: lambda x1, x2: of_gaussian(t)(x1, x2) ** 2},
        {"kernel": lambda t: of_gaussian(t @ t @ t)},  # at T = I the same
    )
    for settings in others:
        with pytest.raises(InputError, match="transforms.npz, of another kernel"):
            machine(one_direction, directory=tmp_path, **settings)
    with pytest.raises(InputError, match="of another kernel, examples"):
        machine((x + 1, y, direction), directory=tmp_path)
    path = tmp_path / "transforms.npz"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match=r"transforms.npz is damaged; remove"):
        machine(one_direction, directory=tmp_path, updates=1)
