"""Every kind of array that users have: each call is right, against float64, or costs one line.

A row of `ROWS` is one argument of one public function: a call with that argument replaced, its
usual value, and the result in float64. A new function is one row more.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pandas as pd
import pytest

from lsa_jax import data, models, training
from lsa_jax.data import ImageSet
from lsa_jax.errors import InputError
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.training import measures, steps

pytestmark = pytest.mark.usefixtures("unchecked")

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def with_entry(array, entry):
    array = array.astype(np.float32)
    array.reshape(-1)[0] = entry
    return array


def framed(array):
    if array.ndim > 2:
        return array.tolist()
    return pd.DataFrame(array) if array.ndim == 2 else pd.Series(array)


# Changes of an argument's usual value, a numpy array, by name.
KINDS = {
    "as it is": lambda a: a,
    "bool": lambda a: a > 0,
    "uint8": lambda a: np.abs(np.round(40 * a)).astype(np.uint8),
    "int64": lambda a: np.round(2 * a).astype(np.int64),
    "float16": lambda a: a.astype(np.float16),
    "bfloat16": lambda a: a.astype(ml_dtypes.bfloat16),
    "float64": lambda a: a.astype(np.float64),
    "complex": lambda a: a + 0.5j,
    "object": lambda a: a.astype(object),
    "text": lambda a: a.astype(str),
    "not contiguous": lambda a: np.repeat(a, 2, axis=0)[::2],
    "by columns": np.asfortranarray,
    "read-only": frozen,
    "jax": jnp.asarray,
    "list": lambda a: a.tolist(),
    "pandas": framed,
    "[n]": lambda a: a.reshape(len(a), -1)[:, 0],
    "[n, 1]": lambda a: a.reshape(len(a), -1)[:, :1],
    "an axis more": lambda a: a[..., None],
    "no row": lambda a: a[:0],
    "one row": lambda a: a[:1],
    "NaN": lambda a: with_entry(a, np.nan),
    "infinite": lambda a: with_entry(a, np.inf),
}
# Kinds of scalars, which need no axis.
SCALARS = ("as it is", "bool", "uint8", "int64", "float16", "float64", "complex", "object", "jax")


class Row(NamedTuple):
    """One argument of a function.

    Attributes:
        usual: its value.
        call: the function of it, all else as usual.
        expected: `(value in float64) -> result`.
        tolerance: relative to the largest number of the result.
        kinds: names of `KINDS`.
        only_whole: whether numbers with fractions are refused.
    """

    usual: np.ndarray
    call: Callable[[Any], Any]
    expected: Callable[[np.ndarray], Any]
    tolerance: float = 2e-5
    kinds: tuple[str, ...] = tuple(KINDS)
    only_whole: bool = False


# --- losses --------------------------------------------------------------------------------------

N, C = 6, 4
OUTPUTS = RNG.normal(size=(N, C)).astype(np.float32)
LABELS = np.array([0, 3, 1, 2, 2, 0])
ONE_HOT = np.eye(C, dtype=np.float32)[LABELS]
MARGINS = RNG.normal(size=(N, 1)).astype(np.float32)
SIGNS = np.array([1, -1, 1, 1, -1, -1], np.float32)


def one_hot(targets, count):
    return np.eye(count)[targets.astype(int)] if targets.ndim == 1 else targets


def cross_entropy(outputs, targets):
    assert outputs.shape[1] > 1
    with np.errstate(all="ignore"):
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        log_softmax = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return -(one_hot(targets, outputs.shape[1]) * log_softmax).sum(axis=1)


def squares(outputs, targets):
    with np.errstate(all="ignore"):
        return 0.5 * ((outputs - targets.reshape(outputs.shape)) ** 2).sum(axis=1)


def margins(outputs, signs):
    assert outputs.shape[1] == 1
    with np.errstate(all="ignore"):
        return outputs[:, 0] * signs.reshape(-1)


def correct(outputs, targets):
    if outputs.shape[1] == 1:
        right, known = margins(outputs, targets) > 0, ~np.isnan(targets.reshape(-1))
    else:
        rows = one_hot(targets, outputs.shape[1])
        right, known = outputs.argmax(1) == rows.argmax(1), ~np.isnan(rows).any(1)
    return np.where(known & ~np.isnan(outputs).any(1), right, np.nan)


LOSSES = {
    "softmax_cross_entropy": (OUTPUTS, ONE_HOT, cross_entropy),
    "class_mean_cross_entropy": (OUTPUTS, ONE_HOT, lambda o, t: cross_entropy(o, t) / o.shape[1]),
    "squared_error": (OUTPUTS, ONE_HOT, squares),
    "logistic": (MARGINS, SIGNS, lambda o, t: np.logaddexp(0, -margins(o, t))),
    "hinge": (MARGINS, SIGNS, lambda o, t: np.maximum(0, 1 - margins(o, t))),
    "is_correct": (OUTPUTS, ONE_HOT, correct),
}
ROWS: dict[str, Row] = {}
for _name, (_outputs, _targets, _reference) in LOSSES.items():
    _call = getattr(training, _name)
    ROWS[f"{_name}.outputs"] = Row(
        _outputs,
        lambda v, call=_call, t=_targets: call(v, t),
        lambda v, reference=_reference, t=_targets: reference(v, t.astype(float)),
    )
    ROWS[f"{_name}.targets"] = Row(
        _targets,
        lambda v, call=_call, o=_outputs: call(o, v),
        lambda v, reference=_reference, o=_outputs: reference(o.astype(float), v),
    )
ROWS["is_correct.signs"] = Row(
    SIGNS, lambda v: training.is_correct(MARGINS, v), lambda v: correct(MARGINS.astype(float), v)
)
ROWS["softmax_cross_entropy.classes"] = Row(
    LABELS / 2,  # whole numbers as int64
    lambda v: training.softmax_cross_entropy(OUTPUTS, v),
    lambda v: cross_entropy(OUTPUTS.astype(float), v),
    only_whole=True,
)
ROWS["is_correct.classes"] = Row(
    LABELS / 2, lambda v: training.is_correct(OUTPUTS, v), lambda v: correct(OUTPUTS, v),
    only_whole=True,
)  # fmt: skip

# --- training ------------------------------------------------------------------------------------

X = RNG.normal(size=(4, 3)).astype(np.float32)
Y = RNG.normal(size=(4, 2)).astype(np.float32)
RATE = 0.01


def start_of(shape):
    """Returns the weights at the start, [inputs, 2]."""
    return np.linspace(-1, 1, 2 * shape[-1]).reshape(shape[-1], 2)


MODEL = models.Model(
    lambda key, shape: {"w": jnp.asarray(start_of(shape), jnp.float32)},
    lambda params, x: x.astype(jnp.float32) @ params["w"],
    None,
)


def train(x, y, test=None, loss=training.squared_error):
    evaluation = training.Evaluation(None if test is None else data.Dataset(*test))
    return training.train(
        KEY, MODEL, data.Dataset(x, y), loss, optax.sgd(RATE), epochs=1, batch_size=4,
        evaluation=evaluation,
    )  # fmt: skip


def trained(x, y):
    return train(x, y)[0]["w"]


def stepped(x, y):
    """Returns the weights after the one step."""
    start = start_of(x.shape)
    return start - RATE * x.T @ (x @ start - y) / len(x)


ROWS |= {
    "train.data.inputs": Row(
        X, lambda v: trained(v, Y[: len(v)]), lambda v: stepped(v, Y[: len(v)])
    ),
    "train.data.targets": Row(
        Y, lambda v: trained(X[: len(v)], v), lambda v: stepped(X[: len(v)], v)
    ),
}

# --- steps and growth ----------------------------------------------------------------------------


def distance(params, batch):
    errors = 0.5 * jnp.square(params["w"][None] - batch)
    return errors.sum(), jnp.float32(len(batch))


PROBLEM = steps.Problem(
    distance, optax.sgd(0.5), lambda first, count: np.ones((count, 2, 3), np.float32),
    np.ones((1, 2, 3), np.float32),
)  # fmt: skip


# Parameters of 16 bits are trained in 16 bits; the loss broadcasts other shapes.
_NARROW_OR_SHAPED = ("float16", "bfloat16", "NaN", "infinite", "[n]", "[n, 1]", "an axis more")


def after_a_step(w):
    states = steps.NetworkState({"w": w}, optax.sgd(0.5).init({"w": w}))
    layout = ReplicaLayout(2)
    found = steps.train_steps(
        PROBLEM, states, layout, start=0, stop=1, measured=np.array([1]), segment=1
    )
    return found.states.params["w"]


LAYERS, FRESH = RNG.normal(size=(3, 2)).astype(np.float32), np.zeros((5, 2), np.float32)
SOURCES = np.array([0.0, 0.5, -0.5, 0.5, 1.0])  # twice that, as int64: layers 0, 1, NEW, 1, 2


ROWS |= {
    "train_steps.states.params": Row(
        RNG.normal(size=(2, 3)).astype(np.float32),
        after_a_step,
        lambda w: w - 0.5 * (w - 1),
        kinds=tuple(k for k in KINDS if k not in _NARROW_OR_SHAPED),
    ),
}

# --- measures ------------------------------------------------------------------------------------

W0, W1 = (RNG.normal(size=(3, 2)).astype(np.float32) for _ in range(2))


def squared_network(params, x):
    return jnp.square(x @ params["w"])


def kernel(x, w):
    """Returns the mean over outputs of the tangent kernel: d f_c / d w = 2 (x w_c) x."""
    return np.mean([(a := 2 * x * (x @ w[:, c : c + 1])) @ a.T for c in range(2)], axis=0)


def cosine(a, b):
    return (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)


def centred(a):
    return a - a.mean(0) - a.mean(1, keepdims=True) + a.mean()


def aligned(a, b):
    with np.errstate(all="ignore"):
        return cosine(centred(a), centred(b))


def alignment(x, w, y):
    y = np.eye(2)[y.astype(int)] if y.ndim == 1 else y.reshape(len(y), -1)
    return aligned(kernel(x, w), y @ y.T)


P0, P1 = {"w": W0}, {"w": W1}
_FLOATS = tuple(k for k in KINDS if k not in ("NaN", "infinite", "one row"))
ROWS |= {
    "measures.kernel_distance.inputs": Row(
        X,
        lambda v: measures.kernel_distance(squared_network, P0, P1, v),
        lambda x: 1 - cosine(kernel(x, W1.astype(float)), kernel(x, W0.astype(float))),
        kinds=tuple(k for k in _FLOATS if k not in ("[n]", "[n, 1]", "an axis more")),
    ),
    "measures.target_alignment.targets": Row(
        Y,
        lambda v: measures.target_alignment(squared_network, P0, P1, X, v),
        lambda y: alignment(X.astype(float), W1, y),
        kinds=_FLOATS,
    ),
}

# --- data ----------------------------------------------------------------------------------------

PIXELS = RNG.random((3, 2, 2, 1)).astype(np.float32)
ON_NOISE = data.Composition(2, 4, "fixed_corner", "gaussian")


def compose(composition, images=PIXELS, index=None, noise=1.0, **settings):
    index = np.arange(len(images)) if index is None else index
    return data.compose(composition, KEY, images, index, 0, noise=noise, **settings)


def labels_of(inputs, targets):
    image_set = ImageSet(data.Dataset(inputs, targets), data.Dataset(PIXELS, np.arange(3)), "abc")
    found = data.task_view(image_set, "all").train
    return found


ROWS |= {
    "task_view.targets": Row(
        np.array([0, 0.5, 1.0]),  # twice that, as int64
        lambda v: labels_of(PIXELS[: len(v)], v).targets,
        lambda v: np.eye(3)[v.astype(int)],
        only_whole=True,
    ),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore:overflow|invalid value|divide by zero:RuntimeWarning")
def test_a_kind_of_array_is_right_or_costs_one_line(name):
    row, wrong = ROWS[name], {}
    for kind in row.kinds:
        value = KINDS[kind](row.usual)
        try:
            found = np.asarray(row.call(value), np.float64)
        except InputError as error:
            usual = "int64" if row.only_whole else "as it is"
            if "\n" in str(error) or kind == usual:
                wrong[kind] = error
            continue
        except Exception as error:  # every other one is a traceback for the user
            wrong[kind] = error
            continue
        if kind in ("complex", "text"):
            wrong[kind] = "accepted"
            continue
        expected = np.asarray(row.expected(np.asarray(value).astype(np.float64)))
        size = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
        if found.shape != expected.shape or not np.allclose(
            found, expected, row.tolerance, row.tolerance * size, equal_nan=True
        ):
            wrong[kind] = found, expected
    assert not wrong


# --- learning rates, keys, images ---------------------------------------------------------------


def of_keys(key):
    """Trains as many replicas as there are keys, or one."""
    model = MODEL._replace(init=lambda key, shape: {"w": jax.random.normal(key, (*shape, 2))})
    examples = data.Dataset(X, Y)
    return training.train(
        key, model, examples, training.squared_error, optax.sgd(RATE), epochs=1, batch_size=2
    )[0]


USES_OF_KEYS = {
    "train": of_keys,
    "compose": lambda key: data.compose(ON_NOISE, key, PIXELS, np.arange(3), 0, noise=1.0),
}


@pytest.mark.parametrize("name", USES_OF_KEYS)
def test_keys_of_both_kinds_draw_the_same(name):
    use = USES_OF_KEYS[name]
    for old in (jax.random.PRNGKey(3), np.asarray(jax.random.PRNGKey(3))):
        jax.tree.map(np.testing.assert_array_equal, use(old), use(jax.random.key(3)))
    for wrong in (3, None, X, "key", np.zeros(2)):
        with pytest.raises(InputError, match="key"):
            use(wrong)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 28, 28)])
def test_images_with_channels_first_are_pointed_out(shape):
    images, labels = np.zeros((3, *shape), np.float32), np.arange(3)
    image_set = ImageSet(data.Dataset(images, labels), data.Dataset(images, labels), "abc")
    with pytest.warns(UserWarning, match="channels"):
        data.task_view(image_set, "all")
    with pytest.warns(UserWarning, match="channels"):
        training.Source.of(data.Dataset(images, labels))
