"""What users bring: arrays of any kind, each right or refused in one line, at every entry point."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from lsa_jax import kernels, models
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.processes import ALONE

# Users' arrays are not what annotations state: it is the package that has to refuse them.
pytestmark = pytest.mark.usefixtures("unchecked")

# Small whole numbers, which all types of numbers hold exactly.
_RNG = np.random.default_rng(0)
X = _RNG.integers(0, 4, (6, 3)).astype(float) + np.eye(6, 3)
X2, Y, W = X[1:5] + 1, _RNG.integers(0, 5, (6, 2)).astype(float), np.array([[1.0, 2], [3, 1], [0, 2]])
K, K_TEST, PRIOR = X @ X.T + 2 * np.eye(6), X2 @ X.T, X2 @ X2.T + 20 * np.eye(4)
IMAGES = _RNG.integers(0, 4, (3, 4, 4, 1)).astype(float)
RIDGES = np.array([1.0, 2.0])
RIDGE = 0.5


class Row(NamedTuple):
    """One argument of a public function.

    Attributes:
        function: name in `kernels` or `models`, perhaps with what is called of its result.
        argument: how a message names it.
        base: a value.
        call: calls the function with a value of this argument.
        expected: the result in float64 for a float64 array; None: the same call with that array.
        scale: whether the values may be large.
    """

    function: str
    argument: str
    base: np.ndarray
    call: Callable[[Any], Any]
    expected: Callable[[np.ndarray], Any] | None = None
    scale: bool = True


def linear(a, b=None):
    a, b = (x.reshape(len(x), -1) for x in (a, a if b is None else b))
    return a @ b.T


def flat(x):
    return x.reshape(len(x), -1)


def products(a, b=None):
    return flat(a) @ flat(a if b is None else b).T


def squares(params, x):
    return (x @ params["w"]) ** 2


PARAMS = {"w": W}


def squares_ntk(w, a, b=None):
    b = a if b is None else b
    return 4 * (a @ w) @ (b @ w).T / w.shape[1] * (a @ b.T)


def tangent(w, new, x):
    return (x @ w) ** 2 + 2 * (x @ w) * (x @ (new - w))


def on_examples(w, new, x):
    examples, apply = kernels.linearize_on(squares, {"w": w}, x)
    return apply({"w": new}, examples)


def gradients(w, x):
    (layer,) = kernels.layer_gradients(squares, {"w": w}, x)
    return layer.outer_product


def squares_gradients(w, x):
    return 4 * sum(np.mean((x @ w[:, c]) ** 2) * np.outer(w[:, c], w[:, c]) for c in range(w.shape[1]))


def drawn(x1, x2=None):
    draw = lambda key: {"w": jnp.asarray(W)}  # noqa: E731
    return kernels.monte_carlo_kernel(
        jax.random.key(0), draw, squares, x1, x2, min_draws=2, max_draws=2
    ).mean


def shift(k):
    return RIDGE * np.trace(k) / len(k) * np.eye(len(k))


def ridge_regression(k, y, k_test):
    return y.mean(0) + k_test @ np.linalg.solve(k + shift(k), y - y.mean(0))


def weights(k, y):
    return np.linalg.solve(k + shift(k), y - y.mean(0))


def regress(k, y, k_test):
    return kernels.regress(k, y, k_test, ridge=RIDGE).predictions


def regress_cg(k, y, k_test):
    return kernels.regress_cg(k, y, k_test, ridge=RIDGE).predictions


def path_cg(k, y, k_test, ridges=(RIDGE,)):
    return np.stack([fit.predictions for fit in kernels.ridge_path_cg(k, y, k_test, ridges)])


def many_ridges(k, y, k_test, ridges):
    mean, kk = np.trace(k) / len(k), np.eye(len(k))
    return np.stack([y.mean(0) + k_test @ np.linalg.solve(k + r * mean * kk, y - y.mean(0)) for r in ridges])


def left_out(k, y, ridges=RIDGES):
    """Returns errors by fitting without each example."""
    errors = []
    for ridge in ridges:
        g = k + ridge * np.trace(k) / len(k) * np.eye(len(k))
        found = []
        for i in range(len(k)):
            some = np.delete(np.arange(len(k)), i)
            mean = y[some].mean(0)
            fit = mean + k[i, some] @ np.linalg.solve(g[np.ix_(some, some)], y[some] - mean)
            found.append((fit - y[i]) ** 2)
        errors.append(np.mean(found))
    return np.array(errors)


def best(k, y):
    return RIDGES[np.argmin(left_out(k, y))]


def conditioned(k, y, k_test, prior):
    found = kernels.posterior(k, y, k_test, prior, ridge=RIDGE)
    return np.concatenate([found.mean, found.covariance], axis=1)


def gaussian(k, y, k_test, prior):
    solved = np.linalg.solve(k + shift(k), np.concatenate([y, k_test.T], axis=1))
    mean, half = k_test @ solved[:, : y.shape[1]], k_test @ solved[:, y.shape[1] :]
    return np.concatenate([mean, prior - half], axis=1)


def flow(y=Y, k_test=K_TEST, times=(3.0,), train=None, test=None):
    found = kernels.gradient_flow(
        kernels.eigendecompose(K), y, k_test, times, train_outputs=train, test_outputs=test
    )
    return np.concatenate([found.train, found.test], axis=1)


def flowed(y=Y, k_test=K_TEST, times=(3.0,), train=0.0, test=0.0):
    values, vectors = np.linalg.eigh(K)
    found = []
    for time in times:
        reach = -np.expm1(-values * time / y.size) / values
        step = vectors @ (reach[:, None] * (vectors.T @ (train - y + 0 * y)))
        found.append(np.concatenate([train + 0 * y - K @ step, test - k_test @ step]))
    return np.stack(found)


def nystrom(x, y, centres, test):
    stream = kernels.Stream.of(x, y, 4)
    return kernels.regress_nystrom(linear, centres, stream, test, ridge=RIDGE).predictions


def on_centres(x, y, centres, test):
    x, centres, test = map(flat, (x, centres, test))
    inner, cross = centres @ centres.T, centres @ x.T
    system = cross @ cross.T + RIDGE * np.trace(inner) / len(inner) * inner
    found = np.linalg.lstsq(system, cross @ (y - y.mean(0)), rcond=1e-9)[0]
    return y.mean(0) + test @ centres.T @ found


def outer(x, a):
    return flat(x).T @ a @ a.T @ flat(x)


def learned(x, y):
    machine = kernels.recursive_feature_machine(
        lambda t: lambda a, b=None: linear(a @ t, (a if b is None else b) @ t),
        x,
        y,
        key=jax.random.key(0),
        updates=1,
        ridge=RIDGE,
    )
    return machine.transforms[1]


def learned_once(x, y):
    k = x @ x.T
    values, vectors = np.linalg.eigh(outer(x, weights(k, y)))
    values = np.sqrt(np.maximum(values, 0))
    return (vectors * values / np.linalg.norm(values) * np.sqrt(len(values))) @ vectors.T


NET = models.network([models.Dense(3), models.Relu(), models.Dense(2)])
NET_PARAMS = {"Dense_0": {"weight": W @ np.ones((2, 3)) - 5}, "Dense_1": {"weight": W}}


def net(x, first=NET_PARAMS["Dense_0"]["weight"]):
    return np.maximum(x @ first / np.sqrt(3), 0) @ W / np.sqrt(3)


def with_first(first):
    return {**NET_PARAMS, "Dense_0": {"weight": first}}


def arc_cosine_ntk(a, b=None):
    b = a if b is None else b
    k = a @ b.T / a.shape[1]
    sizes = np.sqrt(np.outer((a**2).mean(1), (b**2).mean(1)))
    angle = np.arccos(np.clip(k / sizes, -1, 1))
    nngp = sizes * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    return nngp + k * (np.pi - angle) / (2 * np.pi)


CNN = models.cnn(1, 2, channels=(2,))
MLP = models.mlp(1, 2, widths=(4,))
WRN = models.wide_resnet(1, 2)
SCALED = models.scaled(NET, 2.0)
MOVED = {"initial": NET_PARAMS, "moved": jax.tree.map(np.ones_like, NET_PARAMS)}
SPECTRUM = kernels.eigendecompose(K)


def params_of(model, shape=(4, 4, 1)):
    return jax.tree.map(np.asarray, model.init(jax.random.key(0), shape))


CNN_PARAMS, MLP_PARAMS, WRN_PARAMS = map(params_of, (CNN, MLP, WRN))

k = kernels
ROWS = [
    Row("gram", "x1", X, lambda a: k.gram(linear, a), products),
    Row("gram", "x2", X2, lambda a: k.gram(linear, X, a), lambda a: products(X, a)),
    Row("infinite_kernel", "x1", X, k.infinite_kernel(lambda a, b, get: linear(a, b)), products),
    Row("infinite_of", "x2", X2, lambda a: k.infinite_of((id, id, lambda a, b, get: linear(a, b)))(X, a), lambda a: products(X, a)),
    Row("InfiniteKernel", "x1", X, NET.kernel, arc_cosine_ntk),
    Row("InfiniteKernel", "x2", X2, lambda a: NET.kernel(X, a), lambda a: arc_cosine_ntk(X, a)),
    Row("InfiniteKernel.gram", "x1", X, lambda a: k.gram(NET.ntk, a), arc_cosine_ntk),
    Row("InfiniteKernel.transformed", "x1", X, NET.kernel.transformed(np.diag([1.0, 2, 3])), lambda a: arc_cosine_ntk(a * [1.0, 2, 3])),
    Row("InfiniteKernel.transformed", "transform", np.diag([1.0, 2, 3]), lambda a: NET.kernel.transformed(a)(X), lambda t: arc_cosine_ntk(X @ t)),
    Row("empirical_ntk", "x1", X, lambda a: k.empirical_ntk(squares, PARAMS, a), lambda a: squares_ntk(W, a)),
    Row("empirical_ntk", "x2", X2, lambda a: k.empirical_ntk(squares, PARAMS, X, a), lambda a: squares_ntk(W, X, a)),
    Row("empirical_ntk", "params", W, lambda a: k.empirical_ntk(squares, {"w": a}, X), lambda a: squares_ntk(a, X)),
    Row("finite_kernel", "x1", X, k.finite_kernel(squares, PARAMS), lambda a: squares_ntk(W, a)),
    Row("finite_kernel", "params", W, lambda a: k.gram(k.finite_kernel(squares, {"w": a}), X), lambda a: squares_ntk(a, X)),
    Row("linearize", "x", X, lambda a: k.linearize(squares, PARAMS)({"w": 2 * W}, a), lambda a: tangent(W, 2 * W, a)),
    Row("linearize", "params", W, lambda a: k.linearize(squares, {"w": a})({"w": 2 * W}, X), lambda a: tangent(a, 2 * W, X)),
    Row("linearize", "params", W, lambda a: k.linearize(squares, PARAMS)({"w": a}, X), lambda a: tangent(W, a, X)),
    Row("linearize_on", "x", X, lambda a: on_examples(W, 2 * W, a), lambda a: tangent(W, 2 * W, a)),
    Row("linearize_on", "params", W, lambda a: on_examples(a, 2 * W, X), lambda a: tangent(a, 2 * W, X)),
    Row("linearize_on", "params", W, lambda a: on_examples(W, a, X), lambda a: tangent(W, a, X)),
    Row("taylor_expand", "x", X, lambda a: k.taylor_expand(squares, PARAMS, 2)({"w": 2 * W}, a), lambda a: (a @ (2 * W)) ** 2),
    Row("taylor_expand", "params", W, lambda a: k.taylor_expand(squares, {"w": a}, 2)({"w": W}, X), lambda a: (X @ W + 0 * (X @ a)) ** 2, False),
    Row("taylor_expand", "params", W, lambda a: k.taylor_expand(squares, PARAMS, 2)({"w": a}, X), lambda a: (X @ a) ** 2),
    Row("layer_gradients", "x", X, lambda a: gradients(W, a), lambda a: squares_gradients(W, a)),
    Row("layer_gradients", "params", W, lambda a: gradients(a, X), lambda a: squares_gradients(a, X)),
    Row("last_layer_inputs", "x", X, lambda a: k.last_layer_inputs(squares, PARAMS, a), lambda a: a),
    Row("last_layer_inputs", "params", W, lambda a: k.last_layer_inputs(squares, {"w": a}, X), lambda a: X + 0 * a.sum()),
    Row("monte_carlo_kernel", "x1", X, drawn, lambda a: squares_ntk(W, a)),
    Row("monte_carlo_kernel", "x2", X2, lambda a: drawn(X, a), lambda a: squares_ntk(W, X, a)),
    Row("average_gradient_outer_product", "x", X, lambda a: k.average_gradient_outer_product(linear, Y, a, X2), lambda a: outer(a, Y)),
    Row("average_gradient_outer_product", "weights", Y, lambda a: k.average_gradient_outer_product(linear, a, X), lambda a: outer(X, a)),
    Row("average_gradient_outer_product", "points", X2, lambda a: k.average_gradient_outer_product(linear, Y, X, a), lambda a: outer(X, Y) + 0 * a.sum()),
    Row("recursive_feature_machine", "x", X, lambda a: learned(a, Y), lambda a: learned_once(a, Y)),
    Row("recursive_feature_machine", "y", Y, lambda a: learned(X, a), lambda a: learned_once(X, a)),
    Row("PackedMatrix", "tiles", K[None], lambda a: np.asarray(k.PackedMatrix(a, 6)), lambda a: a[0]),
    Row("ShardedRows", "own", K_TEST, lambda a: k.ShardedRows(a, 4, ALONE).multiply(Y), lambda a: a @ Y),
    Row("regress", "gram_train", K, lambda a: regress(a, Y, K_TEST), lambda a: ridge_regression(a, Y, K_TEST)),
    Row("regress", "targets", Y, lambda a: regress(K, a, K_TEST), lambda a: ridge_regression(K, a, K_TEST)),
    Row("regress", "gram_test", K_TEST, lambda a: regress(K, Y, a), lambda a: ridge_regression(K, Y, a)),
    Row("regress_cg", "gram_train", K, lambda a: regress_cg(a, Y, K_TEST), lambda a: ridge_regression(a, Y, K_TEST)),
    Row("regress_cg", "targets", Y, lambda a: regress_cg(K, a, K_TEST), lambda a: ridge_regression(K, a, K_TEST)),
    Row("regress_cg", "gram_test", K_TEST, lambda a: regress_cg(K, Y, a), lambda a: ridge_regression(K, Y, a)),
    Row("fitted_weights", "gram_train", K, lambda a: k.fitted_weights(a, Y, ridge=RIDGE), lambda a: weights(a, Y)),
    Row("fitted_weights", "targets", Y, lambda a: k.fitted_weights(K, a, ridge=RIDGE), lambda a: weights(K, a)),
    Row("select_ridge", "gram_train", K, lambda a: k.select_ridge(jax.random.key(0), a, Y, RIDGES)),
    Row("select_ridge", "targets", Y, lambda a: k.select_ridge(jax.random.key(0), K, a, RIDGES)),
    Row("select_ridge", "ridges", RIDGES, lambda a: k.select_ridge(jax.random.key(0), K, Y, a)),
    Row("posterior", "gram_train", K, lambda a: conditioned(a, Y, K_TEST, PRIOR), lambda a: gaussian(a, Y, K_TEST, PRIOR), False),
    Row("posterior", "targets", Y, lambda a: conditioned(K, a, K_TEST, PRIOR), lambda a: gaussian(K, a, K_TEST, PRIOR)),
    Row("posterior", "gram_test", K_TEST, lambda a: conditioned(K, Y, a, PRIOR), lambda a: gaussian(K, Y, a, PRIOR), False),
    Row("posterior", "prior", PRIOR, lambda a: conditioned(K, Y, K_TEST, a), lambda a: gaussian(K, Y, K_TEST, a)),
    Row("eigendecompose", "gram_train", K, lambda a: k.eigendecompose(a).values, np.linalg.eigvalsh),
    Row("ridge_path", "targets", Y, lambda a: next(k.ridge_path(SPECTRUM, a, K_TEST, [RIDGE])), lambda a: ridge_regression(K, a, K_TEST)),
    Row("ridge_path", "gram_test", K_TEST, lambda a: next(k.ridge_path(SPECTRUM, Y, a, [RIDGE])), lambda a: ridge_regression(K, Y, a)),
    Row("ridge_path", "ridges", RIDGES, lambda a: np.stack(list(k.ridge_path(SPECTRUM, Y, K_TEST, a))), lambda a: many_ridges(K, Y, K_TEST, a)),
    Row("leave_one_out", "targets", Y, lambda a: k.leave_one_out(SPECTRUM, a, RIDGES), lambda a: left_out(K, a)),
    Row("leave_one_out", "ridges", RIDGES, lambda a: k.leave_one_out(SPECTRUM, Y, a), lambda a: left_out(K, Y, a)),
    Row("leave_one_out_ridge", "gram_train", K, lambda a: k.leave_one_out_ridge(a, Y, RIDGES), lambda a: best(a, Y)),
    Row("leave_one_out_ridge", "targets", Y, lambda a: k.leave_one_out_ridge(K, a, RIDGES), lambda a: best(K, a)),
    Row("leave_one_out_cg", "gram_train", K, lambda a: k.leave_one_out_cg(a, Y, RIDGES, key=jax.random.key(0)).errors, lambda a: left_out(a, Y)),
    Row("leave_one_out_cg", "targets", Y, lambda a: k.leave_one_out_cg(K, a, RIDGES, key=jax.random.key(0)).errors, lambda a: left_out(K, a)),
    Row("ridge_path_cg", "gram_train", K, lambda a: path_cg(a, Y, K_TEST), lambda a: ridge_regression(a, Y, K_TEST)[None]),
    Row("ridge_path_cg", "targets", Y, lambda a: path_cg(K, a, K_TEST), lambda a: ridge_regression(K, a, K_TEST)[None]),
    Row("ridge_path_cg", "gram_test", K_TEST, lambda a: path_cg(K, Y, a), lambda a: ridge_regression(K, Y, a)[None]),
    Row("ridge_path_cg", "ridges", RIDGES, lambda a: path_cg(K, Y, K_TEST, a), lambda a: many_ridges(K, Y, K_TEST, a)),
    Row("gradient_flow", "targets", Y, lambda a: flow(a), flowed),
    Row("gradient_flow", "gram_test", K_TEST, lambda a: flow(k_test=a), lambda a: flowed(k_test=a)),
    Row("gradient_flow", "times", np.array([1.0, 3.0]), lambda a: flow(times=a), lambda a: flowed(times=a)),
    Row("gradient_flow", "train_outputs", Y, lambda a: flow(train=a), lambda a: flowed(train=a)),
    Row("gradient_flow", "test_outputs", Y[:4], lambda a: flow(test=a), lambda a: flowed(test=a)),
    Row("ensemble_mean", "inputs", X[:3], lambda a: k.ensemble_mean(linear, a, Y[:3], X2, ridge=RIDGE), lambda a: products(X2, a) @ np.linalg.solve(products(a) + shift(products(a)), Y[:3])),
    Row("ensemble_mean", "targets", Y, lambda a: k.ensemble_mean(linear, X, a, X2, ridge=RIDGE), lambda a: products(X2, X) @ np.linalg.solve(products(X) + shift(products(X)), a)),
    Row("ensemble_mean", "test_inputs", X2, lambda a: k.ensemble_mean(linear, X, Y, a, ridge=RIDGE), lambda a: products(a, X) @ np.linalg.solve(products(X) + shift(products(X)), Y)),
    Row("Stream", "inputs", X, lambda a: nystrom(a, Y, X[:3], X2), lambda a: on_centres(a, Y, X[:3], X2)),
    Row("Stream", "targets", Y, lambda a: nystrom(X, a, X[:3], X2), lambda a: on_centres(X, a, X[:3], X2)),
    Row("regress_nystrom", "centres", X[:3], lambda a: nystrom(X, Y, a, X2), lambda a: on_centres(X, Y, a, X2), False),
    Row("regress_nystrom", "test", X2, lambda a: nystrom(X, Y, X[:3], a), lambda a: on_centres(X, Y, X[:3], a)),
    Row("network", "inputs", X, lambda a: NET.apply(NET_PARAMS, a), net),
    Row("network", "params", NET_PARAMS["Dense_0"]["weight"] + 5, lambda a: NET.apply(with_first(a), X), lambda a: net(X, a)),
    Row("network", "inputs", X, lambda a: NET.activations(NET_PARAMS, a)[0], net),
    Row("network", "x1", X, NET.nngp),
    Row("cnn", "inputs", IMAGES, lambda a: CNN.apply(CNN_PARAMS, a)),
    Row("cnn", "x1", IMAGES, CNN.ntk),
    Row("mlp", "inputs", IMAGES, lambda a: MLP.apply(MLP_PARAMS, a)),
    Row("wide_resnet", "inputs", IMAGES, lambda a: WRN.apply(WRN_PARAMS, a)),
    Row("scaled", "inputs", X, lambda a: SCALED.apply(MOVED, a)),
    Row("scaled", "x1", X, SCALED.kernel, arc_cosine_ntk),
]  # fmt: skip


def _typed(dtype: Any, factor: float = 1) -> Callable:
    return lambda a, row: np.asarray(a * (factor if row.scale else 1)).astype(dtype)


def _of_jax(a, row):
    return jnp.asarray(a, jnp.float32)


def _frame(a, row):
    return pd.DataFrame(a) if a.ndim == 2 else pd.Series(a) if a.ndim == 1 else a


def _strided(a, row):
    return np.repeat(np.repeat(a, 2, axis=0), 3, axis=-1)[::2, ..., ::3]


def _read_only(a, row):
    a = a.copy()
    a.flags.writeable = False
    return a


# Kinds that hold real numbers: the result is that of float64.
NUMBERS = {
    "bool": _typed(bool),
    "uint8": _typed(np.uint8, 10),
    "int8": _typed(np.int8),
    "int64": _typed(np.int64, 50_000),
    "float16": _typed(np.float16, 90),
    "bfloat16": _typed(jnp.bfloat16, 64),
    "float32": _typed(np.float32),
    "float64": _typed(np.float64),
    "fortran": lambda a, row: np.asfortranarray(a),
    "strided": _strided,
    "read_only": _read_only,
    "jax": _of_jax,
    "list": lambda a, row: a.tolist(),
    "pandas": _frame,
    "objects": lambda a, row: a.astype(object),
}

# Kinds that hold none.
OTHERS = {
    "complex64": lambda a: (a + 1j * a[::-1]).astype(np.complex64),
    "complex128": lambda a: a + 1j * a[::-1],
    "text": lambda a: a.astype(str),
    "strings": lambda a: a.astype(str).astype(object),
    "dates": lambda a: a.astype("timedelta64[s]"),
    "masked": lambda a: np.ma.masked_array(a, a == a.flat[0]),
    "nothing": lambda a: np.full(a.shape, None),
    "ragged": lambda a: [*a.tolist(), [1.0] * 7],
    "word": lambda a: "word",
    "dictionary": lambda a: {"a": a},
}

# Other shapes: right, or refused.
SHAPES = {
    "one axis": lambda a: a.reshape(-1)[: len(a)],
    "one column": lambda a: a.reshape(len(a), -1)[:, :1],
    "another axis": lambda a: a[..., None],
    "an axis before": lambda a: a[None],
    "no row": lambda a: a[:0],
    "one row": lambda a: a[:1],
    "no column": lambda a: a[..., :0],
    "a number": lambda a: a.flat[0],
}


def outcome(row, argument, kind):
    """Returns the result; None where it costs one line that names the argument."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return jax.tree.map(np.asarray, row.call(argument))
        except (InputError, NumericalError) as error:
            told = str(error)
            assert "\n" not in told, told
            assert isinstance(error, NumericalError) or "accepted" in told, told
            return None


def expected(row, argument):
    return np.asarray((row.expected or row.call)(np.asarray(argument, np.float64)), float)


def assert_right(row, found, argument):
    with np.errstate(all="ignore"):
        wanted = expected(row, argument)
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    scale = np.abs(wanted).max(initial=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5 * scale)


IDS = [f"{row.function}:{row.argument}" for row in ROWS]
each_row = pytest.mark.parametrize("row", ROWS, ids=IDS)


@each_row
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_any_type_give_what_float64_gives(row, kind):
    argument = NUMBERS[kind](row.base, row)
    found = outcome(row, argument, kind)
    assert found is not None
    assert_right(row, found, argument)


@each_row
@pytest.mark.parametrize("kind", OTHERS)
def test_what_holds_no_real_numbers_is_refused(row, kind):
    assert outcome(row, OTHERS[kind](row.base), kind) is None


@each_row
@pytest.mark.parametrize("kind", SHAPES)
def test_other_shapes_are_right_or_refused(row, kind):
    argument = SHAPES[kind](row.base)
    found = outcome(row, argument, kind)
    if found is not None:
        assert_right(row, found, argument)


@each_row
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_not_finite_stays_so_or_is_refused(row, number):
    argument = row.base.copy()
    argument.flat[1] = number
    found = outcome(row, argument, number)
    assert found is None or not np.isfinite(found).all()
