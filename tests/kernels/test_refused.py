"""Calls with options that are not accepted, or numbers that no kernel has, cost one line.

Arrays of other kinds and shapes: tests/test_kinds_of_input.py; the memory: test_memory.py.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels, models
from lsa_jax._neural_tangents import stax
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import (
    Stream,
    Workers,
    eigendecompose,
    empirical_ntk,
    gram,
    leave_one_out_cg,
    leave_one_out_ridge,
    posterior,
    regress,
    regress_cg,
    regress_nystrom,
    ridge_path_cg,
)

# Annotations would refuse some of these arrays before the package does.
pytestmark = pytest.mark.usefixtures("unchecked")

RNG, KEY = np.random.default_rng(0), jax.random.key(0)
X, Y = RNG.normal(size=(12, 3)).astype(np.float32), RNG.normal(size=(12, 2))
TWO, IMAGES = X[:2], np.ones((2, 8, 8, 3), np.float32)


def rbf(x1, x2):
    return jnp.exp(-jnp.sum((x1[:, None] - x2[None]) ** 2, axis=-1))


def narrow(x1, x2):
    return jnp.float32(x1 @ x2.T)


K = np.asarray(rbf(X, X), float)
SPECTRUM, THREE, RIDGES = eigendecompose(K), (K, Y, K), (0.1, 1.0)
EQUAL, NONE_FINITE = np.array([[4.0, 6], [6, 4]]), np.where(np.arange(12) == 3, np.nan, K)
DENSE, CONV = models.Dense(2), models.Conv(2, padding="VALID")
OF_ROWS = models.network([DENSE, models.Relu(), DENSE]).kernel
OF_IMAGES = models.network([CONV, models.Relu(), models.Flatten(), DENSE]).kernel
PARAMS = {"hidden": np.ones((3, 7), np.float32), "readout": np.ones((7, 2), np.float32)}
STREAM = Stream.of(X, Y)


def apply(params, x):
    return jnp.tanh(x @ params["hidden"]) @ params["readout"]


def by_theirs(layer):
    return kernels.infinite_of(stax.serial(*layer) if isinstance(layer, list) else layer)


def curve(eigenvalues=(1.0, 0.5), coefficients=np.eye(2), ns=(1,), **options):  # noqa: B008
    return kernels.predict_learning_curve(
        np.array(eigenvalues), np.array(coefficients), ns, **options
    )


def machine(y=Y, **options):
    of = lambda t: lambda x1, x2: rbf(x1 @ t.astype("float32"), x2 @ t.astype("float32"))  # noqa: E731
    return kernels.recursive_feature_machine(of, X, y, key=KEY, **{"updates": 1} | options)


monte_carlo = partial(kernels.monte_carlo_kernel, KEY, lambda key: PARAMS, apply, X)
nystrom = partial(regress_nystrom, rbf, X[:3])
flow = partial(kernels.gradient_flow, SPECTRUM, Y, K)
ntk = partial(empirical_ntk, apply, PARAMS, TWO)
left_out = partial(leave_one_out_cg, K, Y, key=KEY)

NOT_ACCEPTED = {
    "tile": lambda: gram(rbf, TWO, tile=0),
    "limit below a pair": lambda: gram(rbf, TWO, memory_limit=1),
    "limit below a tile": lambda: gram(rbf, X, tile=8, memory_limit=100),
    "dtype": lambda: gram(rbf, TWO, dtype="float16"),
    "workers": lambda: gram(rbf, TWO, workers=Workers(None, 2, 2)),
    "workers, a number": lambda: gram(rbf, TWO, workers=2),
    "workers of a number": lambda: gram(rbf, TWO, workers=Workers(2)),
    "workers of a text": lambda: gram(rbf, TWO, workers=Workers("cpu")),
    "half a worker": lambda: gram(rbf, TWO, workers=Workers(None, 0.5, 2)),
    "packed": lambda: gram(rbf, TWO, TWO, packed=True),
    "kernel of three axes": lambda: gram(lambda a, b: rbf(a, b)[..., None], TWO),
    "kernel of few digits": lambda: gram(narrow, TWO, dtype="float64"),
    "no kernel": lambda: gram(models.wide_resnet(1, norm="batch").kernel, IMAGES),
    "get": lambda: OF_ROWS(X, None, "cov1"),
    "get of a transform": lambda: gram(partial(OF_ROWS.transformed(np.eye(3)), get="cov1"), X),
    "method": lambda: OF_ROWS(X, method="magic"),
    "method of a transform": lambda: OF_ROWS.transformed(np.eye(3))(X, method="neural_tangents"),
    "transform": lambda: gram(OF_IMAGES.transformed(np.eye(2)), IMAGES),
    "size of a number": lambda: OF_ROWS.transform_size(3),
    "size of an example": lambda: OF_ROWS.transform_size(X[0]),
    "patches of theirs": lambda: by_theirs(stax.Dense(1)).transform_size((3,)),
    "outputs of theirs": lambda: by_theirs(stax.Conv(1, (3, 3)))(IMAGES),
    "no network of theirs": lambda: kernels.infinite_of((*stax.Dense(1)[:2], 3)),
    "not Gaussian": lambda: models.network([CONV, models.Flatten(), models.Relu(), DENSE]).kernel(
        IMAGES
    ),
    "tolerance of draws": lambda: monte_carlo(tolerance=0.0),
    "min_draws": lambda: monte_carlo(min_draws=1),
    "max_draws": lambda: monte_carlo(max_draws=3),
    "degree": lambda: kernels.taylor_expand(apply, PARAMS, -1),
    "finite method": lambda: ntk(method="magic"),
    "diagonal": lambda: ntk(X, diagonal=True),
    "outputs [n]": lambda: empirical_ntk(lambda p, x: apply(p, x)[:, 0], PARAMS, TWO),
    "outputs of one example": lambda: empirical_ntk(lambda p, x: apply(p, x)[:1], PARAMS, TWO),
    "selected list": lambda: ntk(selected=[True]),
    "selected names": lambda: ntk(selected={"w": True}),
    "selected none": lambda: ntk(selected=False),
    "selected numbers": lambda: ntk(selected={"hidden": 1, "readout": True}),
    "tolerance": lambda: regress_cg(*THREE, ridge=1.0, tolerance=0),
    "tolerance, a text": lambda: regress_cg(*THREE, ridge=1.0, tolerance="0.1"),
    "max_iterations": lambda: regress_cg(*THREE, ridge=1.0, max_iterations=0),
    "no ridges": lambda: ridge_path_cg(*THREE, []),
    "ridge 0": lambda: left_out((0.1, 0)),
    "probes": lambda: left_out(RIDGES, probes=1),
    "negative diagonal": lambda: eigendecompose(-2 * np.eye(3)),
    "one example": lambda: leave_one_out_ridge(np.eye(1), np.eye(1), RIDGES),
    "times": lambda: flow((-1.0,)),
    "test outputs": lambda: flow((1.0,), test_outputs=Y[:3]),
    "ridge of centres": lambda: nystrom(STREAM, X, ridge=-1),
    "batches": lambda: Stream.of(X, Y, 0),
    "ridge": lambda: regress(*THREE, ridge=-1),
    "asymmetric": lambda: regress(K + np.tri(12), Y, K, ridge=1),
    "zeros": lambda: regress(0 * K, Y, K, ridge=1),
    "negative eigenvalue": lambda: curve(eigenvalues=(1.0, -0.5)),
    "no eigenvalue": lambda: curve(eigenvalues=(0.0, 0.0)),
    "n of modes": lambda: curve(ns=(2,)),
    "n of a pool": lambda: curve(ns=(4,), ridge=0.1, pool=4),
    "no n": lambda: curve(ns=()),
    "ridge of a curve": lambda: curve(ridge=-1.0),
    "coefficients": lambda: curve(coefficients=np.eye(3)),
    "infinite coefficients": lambda: curve(coefficients=[[np.nan], [1.0]]),
    "power": lambda: machine(power=0),
    "size": lambda: machine(size=-3),
    "no examples": lambda: kernels.linearize_on(apply, PARAMS, X[:0]),
    "no layers": lambda: models.sampled_kernel(KEY, [], X),
    "batch without targets": lambda: nystrom(Stream(lambda number: X, 2), X, ridge=1.0),
    "file of an ensemble": lambda: kernels.ensemble_mean(rbf, X, Y, X, path="k.npy"),
    "updates": lambda: machine(updates=-1),
}
NOT_SOLVED = {
    "singular": lambda: leave_one_out_ridge(EQUAL, np.eye(2), [0.1, 0.2]),
    "more centres than examples": lambda: nystrom(Stream.of(X[:2], Y[:2]), X, ridge=0),
    "targets": lambda: nystrom(Stream.of(X, Y * np.nan), X, ridge=1),
    "not finite": lambda: regress(NONE_FINITE, Y, K, ridge=1),
    "negative variances": lambda: posterior(K, Y, 10 * K, np.ones(12), ridge=0.1),
    "weights": lambda: kernels.average_gradient_outer_product(OF_ROWS, Y * np.inf, X),
    "nothing to learn": lambda: machine(y=0 * Y),
}


@pytest.mark.parametrize("name", [*NOT_ACCEPTED, *NOT_SOLVED])
def test_a_call_is_refused_in_one_line(name):
    error, call = InputError, NOT_ACCEPTED.get(name)
    if call is None:
        error, call = NumericalError, NOT_SOLVED[name]
    with pytest.raises(error) as refused:
        call()
    assert "\n" not in str(refused.value)
    assert error is NumericalError or "accepted" in str(refused.value)
