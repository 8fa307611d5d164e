"""Arrays of any kind, at every entry point: the result of float64, or refused in one line."""

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest

from lsa_jax import arrays, data, kernels, models, training
from lsa_jax.data.dataset import Dataset, checked_dataset
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.processes import ALONE
from lsa_jax.training import measures

# Users' arrays do not follow annotations: the package has to refuse them.
pytestmark = pytest.mark.usefixtures("unchecked")

# Small whole numbers above 0, which all types of numbers hold exactly.
_RNG = np.random.default_rng(0)
X = _RNG.integers(1, 4, (6, 3)) + np.eye(6, 3)
X2, Y, W = X[1:5] + 1, _RNG.integers(0, 5, (6, 2)) * 1.0, np.array([[1.0, 2], [3, 1], [1, 2]])
K, K_TEST, PRIOR = X @ X.T + 2 * np.eye(6), X2 @ X.T, X2 @ X2.T + 20 * np.eye(4)
IMAGES = _RNG.integers(1, 4, (3, 4, 4, 1)) * 1.0
RIDGES, RIDGE = np.array([1.0, 2.0]), 0.5
SCALES = np.diag([1.0, 2, 3]) + 1


class Row(NamedTuple):
    """One argument of a public function, or of a method of its result."""

    function: str
    argument: str
    base: np.ndarray
    call: Callable[[Any], Any]
    small: bool  # values stay unchanged, else they are made large
    refused: str  # kinds of numbers that may be


BASES = {
    **dict.fromkeys(("x", "x1", "inputs"), X),
    **dict.fromkeys(("x2", "points", "test", "test_inputs"), X2),
    **dict.fromkeys(("y", "targets", "weights", "coefficients"), Y),
    **{"params": W, "new_params": 2 * W, "transform": SCALES, "ridges": RIDGES},
    **{"gram_train": K, "gram_test": K_TEST, "prior": PRIOR, "tiles": K[None], "own": K_TEST},
    **{"times": np.array([1.0, 3]), "train_outputs": Y + 1, "test_outputs": Y[:4]},
    "centres": X[:3],
}
SMALL = {"gram_train", "gram_test", "prior", "centres"}


def rows(function, call, *, small="", refused="", **own):
    """Returns a row for each argument of a call that has a base."""
    bases = {name: (BASES | own).get(name) for name in inspect.signature(call).parameters}
    bases = {name: base for name, base in bases.items() if base is not None}
    return [
        Row(
            function,
            name,
            base,
            lambda value, name=name: call(**{**bases, name: value}),
            name in SMALL | {*small.split()},
            "bool uint8 int8 int64 list " * name.endswith("params") + refused,
        )
        for name, base in bases.items()
    ]


def flat(x):
    return x.reshape(len(x), math.prod(x.shape[1:]))


def linear(x1, x2=None):
    return flat(x1) @ flat(x1 if x2 is None else x2).T


def squares(params, x):
    return (x @ params["w"]) ** 2


def on_examples(params, new_params, x):
    examples, apply = kernels.linearize_on(squares, {"w": params}, x)
    return apply({"w": new_params}, examples)


def gradients(params, x):
    (layer,) = kernels.layer_gradients(squares, {"w": params}, x)
    return layer.outer_product


def drawn(x1, x2=None):
    def same(key):
        return {"w": jnp.asarray(W)}

    key, few = jax.random.key(0), {"min_draws": 2, "max_draws": 2}
    return kernels.monte_carlo_kernel(key, same, squares, x1, x2, **few).mean


def sampled(x1, x2):
    few = {"min_draws": 2, "max_draws": 2}
    return models.sampled_kernel(jax.random.key(0), [models.Dense(1)], x1, x2, **few).mean


def regress(gram_train, targets, gram_test):
    return kernels.regress(gram_train, targets, gram_test, ridge=RIDGE).predictions[None]


def regress_cg(gram_train, targets, gram_test):
    return kernels.regress_cg(gram_train, targets, gram_test, ridge=RIDGE).predictions[None]


def path(targets, gram_test, ridges):
    return np.stack(list(kernels.ridge_path(SPECTRUM, targets, gram_test, ridges)))


def path_cg(gram_train, targets, gram_test, ridges):
    fits = kernels.ridge_path_cg(gram_train, targets, gram_test, ridges)
    return np.stack([fit.predictions for fit in fits])


def left_out_cg(gram_train, targets, ridges):
    key = jax.random.key(0)
    return kernels.leave_one_out_cg(gram_train, targets, ridges, key=key, tolerance=1e-9).errors


def conditioned(gram_train, targets, gram_test, prior):
    found = kernels.posterior(gram_train, targets, gram_test, prior, ridge=RIDGE)
    return np.concatenate([found.mean, found.covariance.reshape(len(found.mean), -1)], axis=1)


def flow(targets, gram_test, times, train_outputs, test_outputs):
    started = {"train_outputs": train_outputs, "test_outputs": test_outputs}
    return np.concatenate(
        kernels.gradient_flow(SPECTRUM, targets, gram_test, times, **started), axis=1
    )


def ensemble(inputs, targets, test_inputs):
    return kernels.ensemble_mean(linear, inputs, targets, test_inputs, ridge=RIDGE)


def nystrom(inputs, targets, centres, test):
    stream = kernels.Stream.of(inputs, targets, 4)
    return kernels.regress_nystrom(linear, centres, stream, test, ridge=RIDGE).predictions


def learned(x, y):
    def transformed(t):
        return lambda x1, x2=None: linear(x1 @ t, (x1 if x2 is None else x2) @ t)

    settings = {"key": jax.random.key(0), "updates": 1, "ridge": RIDGE}
    return kernels.recursive_feature_machine(transformed, x, y, **settings).transforms[1]


def with_first(params):
    return {"Dense_0": {"weight": params}, "Dense_1": {"weight": W}}


FIRST = W @ np.ones((2, 3))
NET = models.network([models.Dense(3), models.Relu(), models.Dense(2)])
SCALED = models.scaled(NET, 2.0)
MOVED = {"initial": with_first(FIRST), "moved": with_first(FIRST)}
OTHERS_OF_LAYERS = {
    "cnn": models.cnn(1, 2, channels=(2,)),
    "mlp": models.mlp(1, 2, widths=(4,)),
    "wide_resnet": models.wide_resnet(1, 2, norm="none"),
}
SPECTRUM = kernels.eigendecompose(K)


def theirs(x1, x2, get):
    """Stands for a kernel function of neural-tangents."""
    return linear(x1, x2)


# --- training and data -------------------------------------------------------------------------

LABELS = np.array([0, 3, 1, 2, 2, 0])
SIGNS = np.array([1.0, -1, 1, 1, -1, -1])
OUTPUTS = _RNG.normal(size=(6, 4))
RULE = optax.sgd(0.01)
START = models.Model(
    lambda key, shape: {"w": jnp.linspace(-1.0, 1.0, 2 * shape[-1]).reshape(-1, 2)},
    lambda params, x: x.astype(jnp.float32) @ params["w"],
    None,
)


def trained(inputs, targets):
    """Returns the weights after one step on all examples."""
    given = {"epochs": 1, "batch_size": 6}
    examples, key = data.Dataset(inputs, targets), jax.random.key(0)
    return training.train(key, START, examples, training.squared_error, RULE, **given)[0]["w"]


def distance(inputs):
    return measures.kernel_distance(squares, {"w": W}, {"w": W + SCALES[:, :2]}, inputs)


def alignment(targets):
    return measures.target_alignment(squares, {"w": W}, {"w": W + SCALES[:, :2]}, X, targets)


def one_hot(targets):
    count = len(targets) if hasattr(targets, "__len__") else 1
    both = data.Dataset(IMAGES[:count], targets), data.Dataset(IMAGES, np.arange(3))
    return data.task_view(data.ImageSet(*both, "abc"), "all").train.targets


def of_expansion(expand):
    return lambda params, new_params, x: expand({"w": params})({"w": new_params}, x)


def of_network(call):
    return lambda inputs, params: call(with_first(params), inputs)


def of_images(model):
    @functools.cache
    def params():
        return jax.tree.map(np.asarray, model.init(jax.random.key(0), (4, 4, 1)))

    return lambda inputs: model.apply(params(), inputs)


def of_loss(name):
    loss = getattr(training, name)
    return lambda outputs, targets: loss(outputs, targets)


k, part = kernels, functools.partial
LOGITS = {"outputs": OUTPUTS, "targets": np.eye(4)[LABELS], "small": "outputs targets"}
MARGINS = {"outputs": OUTPUTS[:, :1], "targets": SIGNS, "small": "outputs targets"}
WHOLE = {"targets": LABELS, "small": "targets", "refused": "bool float16 jax"}
CALLS = [
    ("gram", lambda x1, x2: k.gram(linear, x1, x2)),
    ("gram", lambda x1: k.gram(linear, x1)),
    ("infinite_of", k.infinite_of((id, id, theirs))),
    ("InfiniteKernel", NET.kernel),
    ("InfiniteKernel", lambda x1: k.gram(NET.ntk, x1)),
    ("InfiniteKernel.transformed", lambda x1, transform: NET.kernel.transformed(transform)(x1)),
    ("empirical_ntk", lambda params, x1, x2: k.empirical_ntk(squares, {"w": params}, x1, x2)),
    ("finite_kernel", lambda params, x1: k.gram(k.finite_kernel(squares, {"w": params}), x1)),
    ("linearize", of_expansion(part(k.linearize, squares))),
    ("linearize_on", on_examples),
    ("layer_gradients", gradients),
    ("last_layer_inputs", lambda params, x: k.last_layer_inputs(squares, {"w": params}, x)),
    ("layer_inputs", lambda params, x: k.layer_inputs(squares, {"w": params}, x)["w"]),
    ("monte_carlo_kernel", drawn),
    (
        "average_gradient_outer_product",
        lambda weights, x, points: k.average_gradient_outer_product(linear, weights, x, points),
    ),
    ("recursive_feature_machine", learned),
    ("PackedMatrix", lambda tiles: np.asarray(k.PackedMatrix(tiles, 6))),
    ("ShardedRows", lambda own: k.ShardedRows(own, 4, ALONE).multiply(np.eye(6)[: len(own[0])])),
    ("regress", regress),
    ("regress_cg", regress_cg),
    ("eigendecompose", lambda gram_train: k.eigendecompose(gram_train).values),
    ("ridge_path", path),
    ("leave_one_out", part(k.leave_one_out, SPECTRUM)),
    ("kernel_alignment_risk", part(k.kernel_alignment_risk, SPECTRUM)),
    ("modes", lambda targets: k.modes(SPECTRUM, targets)[1]),
    (
        "predict_learning_curve",
        lambda coefficients: k.predict_learning_curve(np.arange(1.0, 7.0), coefficients, [2]).test,
    ),
    ("leave_one_out_ridge", k.leave_one_out_ridge),
    ("leave_one_out_cg", left_out_cg),
    ("ridge_path_cg", path_cg),
    ("gradient_flow", flow),
    ("ensemble_mean", ensemble),
    ("Stream", lambda inputs, targets: nystrom(inputs, targets, X[:3], X2)),
    ("regress_nystrom", lambda centres, test: nystrom(X, Y, centres, test)),
    ("network", NET.nngp),
    ("scaled", lambda inputs: SCALED.apply(MOVED, inputs)),
    ("sampled_kernel", sampled),
    ("scaled", SCALED.kernel),
    ("kernel_distance", distance),
    ("target_alignment", alignment),
]
ROWS = [
    *(row for call in CALLS for row in rows(*call)),
    *rows("taylor_expand", of_expansion(part(k.taylor_expand, squares, degree=2)), small="params"),
    *rows("posterior", conditioned, refused="bool"),
    *rows("network", of_network(NET.apply), params=FIRST),
    *rows("network", of_network(lambda *given: NET.activations(*given)[0]), params=FIRST),
    *rows("train", trained, small="inputs targets"),
    *rows("task_view", one_hot, **WHOLE | {"targets": np.arange(3)}),
]
for _name, _model in OTHERS_OF_LAYERS.items():
    ROWS += rows(_name, of_images(_model), inputs=IMAGES)
for _name in ("softmax_cross_entropy", "class_mean_cross_entropy", "squared_error", "is_correct"):
    ROWS += rows(_name, of_loss(_name), **LOGITS)
for _name in ("logistic", "hinge", "is_correct"):
    _outputs, _targets = rows(_name, of_loss(_name), **MARGINS)
    ROWS += [_outputs, _targets._replace(refused="bool uint8")]
for _name in ("softmax_cross_entropy", "is_correct"):
    ROWS += rows(_name, part(lambda loss, targets: loss(OUTPUTS, targets), of_loss(_name)), **WHOLE)


def _typed(dtype: Any, factor: float = 1) -> Callable:
    return lambda a, row: np.asarray(a * (1 if row.small else factor)).astype(dtype)


def _of_jax(a, row):
    return jnp.asarray(a, jnp.float32)


def _frame(a, row):
    return pd.DataFrame(a) if a.ndim == 2 else pd.Series(a) if a.ndim == 1 else a


def _strided(a, row):
    return np.repeat(np.repeat(a, 2, axis=0), 3, axis=-1)[::2][..., ::3][: len(a)]


def _read_only(a, row):
    a = a.copy()
    a.flags.writeable = False
    return a


# Kinds that hold real numbers: the result is that of float64.
NUMBERS = {
    "bool": _typed(bool),
    "uint8": _typed(np.uint8, 10),
    "int64": _typed(np.int64, 50_000),
    "float16": _typed(np.float16, 90),
    "bfloat16": _typed(jnp.bfloat16, 64),
    "float64": _typed(np.float64),
    "swapped bytes": lambda a, row: a.astype(a.dtype.newbyteorder()),
    "strided": _strided,
    "read_only": _read_only,
    "jax": _of_jax,
    "list": lambda a, row: a.tolist(),
    "pandas": _frame,
}

# Kinds that hold none.
OTHERS = {
    "complex128": lambda a: a + 1j * a[::-1],
    "text": lambda a: a.astype(str),
    "masked": lambda a: np.ma.masked_array(a, a == a.flat[0]),
    "ragged": lambda a: [*a.tolist(), [1.0] * 7],
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


def outcome(row, argument):
    """Returns the result, or the line that it costs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return np.asarray(row.call(argument))
        except (InputError, NumericalError) as error:
            told = str(error)
            assert "\n" not in told
            assert isinstance(error, NumericalError) or "accepted" in told, told
            return told


def assert_right(row, found, argument):
    with np.errstate(all="ignore"):
        wanted = np.asarray(row.call(np.asarray(argument, row.base.dtype)), float)
    assert found.shape == wanted.shape
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5 * scale)


def tried(row, kind, argument):
    """Returns the fault of a call with an argument, if any."""
    found = outcome(row, argument)
    if kind in OTHERS:
        named = isinstance(found, str) and row.argument.removeprefix("new_") in found
        return None if named else found
    if isinstance(found, str):
        return found if kind in NUMBERS and kind not in row.refused.split() else None
    try:
        if kind not in NUMBERS_THAT_ARE_NONE or np.isfinite(found).all():
            assert_right(row, found, argument)
    except AssertionError as error:
        return error
    return None


def with_entry(number):
    def change(a):
        a = a.astype(float)
        a.flat[1] = number
        return a

    return change


# A result that is finite all the same does not depend on that number.
NUMBERS_THAT_ARE_NONE = {"nan": with_entry(np.nan), "infinity": with_entry(np.inf)}
# Of functions that compile much each argument is tried with half of what is tried elsewhere.
LARGE = (
    *("train", "linearize_on", "monte_carlo_kernel", "sampled_kernel", "wide_resnet"),
    *("recursive_feature_machine", "Stream", "layer_gradients", "regress_nystrom"),
)
FEW = ("bool", "uint8", "int64", "float16", "jax", "list", "complex128", "text", "masked", "ragged")


@pytest.mark.parametrize(
    ("place", "row"), [*enumerate(ROWS)], ids=[f"{row.function}:{row.argument}" for row in ROWS]
)
def test_a_kind_of_array_gives_the_result_of_float64_or_costs_one_line(place, row):
    """Where one array and where three are taken with all kinds, elsewhere with a few."""
    given = {name: change(row.base, row) for name, change in NUMBERS.items()}
    given |= {name: change(row.base) for name, change in OTHERS.items()}
    if row.function not in ("gram", "regress"):
        given = {name: given[name] for name in FEW}
    given |= {name: change(row.base) for name, change in (SHAPES | NUMBERS_THAT_ARE_NONE).items()}
    if row.function in LARGE:
        given = dict([*given.items()][place % 2 :: 2])
    faults = {name: tried(row, name, argument) for name, argument in given.items()}
    assert not {name: fault for name, fault in faults.items() if fault is not None}


DROPOUT = models.network([models.Dropout(0.5), models.Dense(3)])
KEYED = {
    "leave_one_out_cg": lambda key: kernels.leave_one_out_cg(K, Y, RIDGES, key=key).errors,
    "monte_carlo_kernel": lambda key: (
        kernels.monte_carlo_kernel(
            key, lambda own: NET.init(own, (3,)), NET.apply, X, min_draws=2, max_draws=2
        ).mean
    ),
    "recursive_feature_machine": lambda key: (
        kernels.recursive_feature_machine(
            NET.kernel.transformed, X, Y, key=key, updates=1, points=2
        ).transforms
    ),
    "init": lambda key: NET.init(key, (3,)),
    "train": lambda key: training.train(
        *(key, NET, data.Dataset(X, Y), training.squared_error, RULE),
        **{"epochs": 1, "batch_size": 2},
    )[0],
    "compose": lambda key: data.compose(
        data.Composition(4, 6, "fixed_corner", "gaussian"), key, IMAGES, np.arange(3), 0, noise=1.0
    ),
    "apply": lambda key: DROPOUT.apply({"Dense_0": {"weight": FIRST}}, X, key),
}


@pytest.mark.parametrize("name", KEYED)
def test_keys_of_both_kinds_draw_the_same_and_all_else_is_refused(name):
    typed, old = KEYED[name](jax.random.key(3)), KEYED[name](jax.random.PRNGKey(3))
    jax.tree.map(np.testing.assert_array_equal, typed, old)
    for other in (3, 3.0, np.zeros(2), "3", X):
        with pytest.raises(InputError, match="^key .*accepted"):
            KEYED[name](other)


NTK = functools.partial(kernels.empirical_ntk, squares, {"w": W})


def test_tokens_stay_integers_where_a_network_looks_them_up():
    table = {"t": _RNG.normal(size=(11, 2))}

    def embed(params, tokens):
        return params["t"][tokens].sum(1)

    tokens = _RNG.integers(0, 11, (5, 4))
    counts = (tokens[..., None] == np.arange(11)).sum(1)
    for found in (
        kernels.empirical_ntk(embed, table, tokens),
        kernels.gram(kernels.finite_kernel(embed, table), tokens.tolist()),
    ):
        np.testing.assert_allclose(found, counts @ counts.T, rtol=1e-6)
    moved = kernels.linearize(embed, table)({"t": 2 * table["t"]}, tokens)
    np.testing.assert_allclose(moved, counts @ (2 * table["t"]), rtol=1e-5)
    with pytest.raises(InputError, match="x1 has integers beyond int32; accepted"):
        kernels.empirical_ntk(embed, table, tokens + 2**40)


def test_sums_of_integers_do_not_overflow_in_kernels_of_ones_own():
    x = _RNG.integers(-100_000, 100_000, (4, 3))
    x = np.concatenate([x, x[:1] + 2**34])  # beyond 32 bits

    def distances(x1, x2=None):
        return jnp.exp(-1e-20 * ((x1[:, None] - (x1 if x2 is None else x2)[None]) ** 2).sum(-1))

    with pytest.raises(InputError, match="x1 has integers beyond int32; accepted.*float32"):
        kernels.gram(distances, x)
    found = kernels.gram(lambda x1, x2: linear(x1, x2), x[:4])
    np.testing.assert_allclose(found, linear(x[:4].astype(float)), rtol=1e-5, atol=1e4)


def test_numbers_beyond_float32_are_refused_and_not_made_infinite():
    x = 1e200 * _RNG.normal(size=(4, 3))
    for call in (
        lambda: kernels.gram(linear, x),
        lambda: NTK(x),
        lambda: checked_dataset("data", Dataset(x, x)),
    ):
        with pytest.raises(InputError, match="beyond float32; accepted"):
            call()
    assert np.isfinite(kernels.gram(linear, 1e-60 * x, dtype="float64")).all()


def test_parameters_that_cannot_be_differentiated_in_may_be_left_out():
    def network(params, x):
        return jnp.real(x @ params["w"] + params["z"][None]) * params["n"][None]

    params = {"w": W, "z": np.array([1 + 2j, 3j]), "n": np.array([2, 3])}
    chosen = {"w": True, "z": False, "n": False}
    found = kernels.empirical_ntk(network, params, X, selected=chosen)
    np.testing.assert_allclose(found, X @ X.T * (4 + 9) / 2, rtol=1e-5)
    for name, kept in (("z", "complex"), ("n", "int64.*selected=")):
        for call, given in ((kernels.empirical_ntk, [X]), (kernels.finite_kernel, [])):
            with pytest.raises(InputError, match=rf"params\['{name}'\] holds {kept}"):
                call(network, params, *given, selected={**chosen, name: True})
    for call in (kernels.linearize, functools.partial(kernels.taylor_expand, degree=1)):
        with pytest.raises(InputError, match=r"params\['n'\] holds int64; accepted: floating"):
            call(network, {"w": W, "n": params["n"]})
    for empty in ({}, [], None):
        with pytest.raises(InputError, match="params is a tree without arrays; accepted"):
            kernels.empirical_ntk(network, empty, X)


def test_outputs_that_are_no_real_numbers_are_refused():
    for network, kind in (
        (lambda params, x: x @ params["w"] + 1j, "complex64"),
        (lambda params, x: jnp.round(x @ params["w"]).astype(int), "int32"),
        (lambda params, x: (x @ params["w"])[:, :0], r"\(.*0\)"),
        (lambda params, x: {"outputs": x @ params["w"]}, "dict"),
    ):
        for call in (kernels.empirical_ntk, kernels.layer_gradients, kernels.linearize_on):
            with pytest.raises(InputError, match=f"^apply turns x1?.* into .*{kind}.*accepted"):
                call(network, {"w": W}, X)
    with pytest.raises(InputError, match="kernel turns .* into complex64; accepted: real"):
        kernels.gram(lambda x1, x2: linear(x1, x2) * 1j, X)


def test_half_precision_does_not_overflow_on_the_way():
    large = {"w": W.astype(np.float16) * 100}
    for method in ("jacobian", "vector_products", "layerwise"):
        found = kernels.empirical_ntk(squares, large, (X * 90).astype(np.float16), method=method)
        products = 4 * (X @ W) @ (X @ W).T / 2 * (X @ X.T)
        np.testing.assert_allclose(found, 100**2 * 90**4 * products, rtol=1e-3)


TRACED = {
    "infinite": NET.kernel,
    "transformed": NET.kernel.transformed(SCALES),
    "finite": NTK,
    "linearized": lambda x: kernels.linearize(squares, {"w": W})({"w": 2 * W}, x),
    "expanded": lambda x: kernels.taylor_expand(squares, {"w": W}, 2)({"w": 2 * W}, x),
    "applied": functools.partial(NET.apply, with_first(FIRST)),
}


@pytest.mark.parametrize("name", TRACED)
def test_functions_of_arrays_are_traced_and_their_types_checked_then(name):
    found = jax.jit(TRACED[name])(X)
    np.testing.assert_allclose(found, TRACED[name](X), rtol=1e-5)
    np.testing.assert_allclose(jax.jit(TRACED[name])(X.astype(np.int8)), found, rtol=1e-5)
    with pytest.raises(InputError, match="holds complex numbers"):
        jax.jit(TRACED[name])(X + 1j)


def test_matrices_of_many_processes_and_of_files_are_taken_as_they_are(tmp_path):
    np.save(tmp_path / "k.npy", K.astype(np.float32))
    mapped = np.load(tmp_path / "k.npy", mmap_mode="r")
    assert np.shares_memory(arrays.real_array("k", mapped, "n n"), mapped)
    half = K.astype(np.float16)
    assert arrays.real_numbers("k", half) is half
    packed, rows = kernels.PackedMatrix(mapped[None], 6), kernels.ShardedRows(K_TEST, 4, ALONE)
    wanted = regress(K, Y, K_TEST)
    for gram_train in (mapped, packed, half):
        for gram_test in (K_TEST, rows):
            np.testing.assert_allclose(regress_cg(gram_train, Y, gram_test), wanted, rtol=1e-6)
    np.testing.assert_allclose(regress(packed, Y, K_TEST), wanted, rtol=1e-6)


@pytest.mark.parametrize("sharding", ["d", None])
def test_examples_on_a_mesh_with_explicit_axes_give_the_same_kernels(sharding):
    model = models.network([models.Dense(3), models.Relu(), models.Dense(2)])
    params, x = model.init(jax.random.key(0), (3,)), np.float32(X[:4])
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices()[:2])
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(sharding))

    def linearized(params, x):
        examples, apply_lin = kernels.linearize_on(model.apply, params, x)
        return apply_lin(params, examples)

    for function in (
        lambda params, x: model.kernel(x, -x),
        functools.partial(kernels.empirical_ntk, model.apply),
        functools.partial(kernels.last_layer_inputs, model.apply),
        linearized,
    ):
        everywhere = jax.device_put(params, place.update(spec=jax.sharding.PartitionSpec()))
        found = function(everywhere, jax.device_put(x, place))
        np.testing.assert_allclose(found, function(params, x), rtol=1e-5)
