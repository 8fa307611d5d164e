"""Learning with kernels against the usual ways: linearised training, and solving."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from benchmarks.measure import Contest
from lsa_jax import kernels, models, training
from lsa_jax._neural_tangents import predict

_SEED, _CLASSES = 0, 10
_RATE = 0.1
_RIDGE = 1e-3
_TIMES = (10.0, 100.0, 1000.0)


def contests(*, quick: bool) -> Iterator[Contest]:
    """Yields contests at two sizes each, or at one tiny size if `quick`."""
    for side, batch in ((42, 32), (16, 16)):
        for n, epochs in ((32, 2),) if quick else ((256, 200), (1024, 200)):
            yield from _linearized(side, batch, n, epochs)
    for n in (20,) if quick else (500, 2000):
        yield from _solving(n)


def _linearized(side: int, batch: int, n: int, epochs: int) -> Iterator[Contest]:
    """Minibatch descent on the linearised CNN; ours includes its preparation.

    For as many epochs as Karp et al. (2021) train the linearised wide ResNet.
    """
    model = models.cnn(1, _CLASSES)
    x = jax.random.normal(jax.random.key(_SEED), (n, side, side, 1))
    params = model.init(jax.random.key(_SEED), x.shape[1:])
    targets = jax.nn.one_hot(jnp.arange(n) % _CLASSES, _CLASSES)
    keys = jax.random.split(jax.random.key(_SEED), epochs)
    batches = jax.vmap(lambda key: jax.random.permutation(key, n))(keys)
    batches = batches.reshape(epochs * n // batch, batch)

    def step(apply_lin: Callable, weights: Any, inputs: Any, targets: Array) -> Any:
        def loss(weights: Any) -> Array:
            return jnp.mean(
                training.LOSSES["softmax_cross_entropy"](apply_lin(weights, inputs), targets)
            )

        return jax.tree.map(lambda w, g: w - _RATE * g, weights, jax.grad(loss)(weights))

    def descend(apply_lin: Callable, params: Any, inputs: Any) -> Array:
        def one(weights: Any, index: Array) -> tuple[Any, None]:
            some = jax.tree.map(lambda a: a[index], inputs)
            return step(apply_lin, weights, some, targets[index]), None

        return ravel_pytree(lax.scan(one, params, batches)[0])[0] - ravel_pytree(params)[0]

    @jax.jit
    def ours(params: Any, x: Array) -> Array:
        expansions, apply_lin = kernels.linearize_on(model.apply, params, x)
        return descend(apply_lin, params, expansions)

    @jax.jit
    def plain(params: Any, x: Array) -> Array:
        return descend(kernels.linearize(model.apply, params), params, x)

    @jax.jit
    def one_step(params: Any, weights: Any, inputs: Array, targets: Array) -> Any:
        return step(kernels.linearize(model.apply, params), weights, inputs, targets)

    def from_python() -> Array:
        weights = params
        for index in np.asarray(batches):
            weights = one_step(params, weights, x[index], targets[index])
        return ravel_pytree(weights)[0] - ravel_pytree(params)[0]

    work = f"linearised training, CNN {side} x {side}"
    size = f"{n} examples, {epochs} epochs of batches of {batch}"
    run = partial(ours, params, x)
    scan = {"linearize and grad": partial(plain, params, x)}
    yield Contest(work, size, len(batches), run, "compiled scan", scan, traced=run)
    steps = {"compiled steps": from_python}
    work += ", from Python"
    yield Contest(work, size, len(batches), run, "Python loop", steps, traced=run)


def _solving(n: int) -> Iterator[Contest]:
    """Regression and gradient flow for the NTK of a fully connected network."""
    x = jax.random.normal(jax.random.key(_SEED), (n + n // 2, 64))
    kernel = np.asarray(models.mlp(widths=(512, 512)).kernel(x))
    train, test = kernel[:n, :n], kernel[n:, :n]
    targets = np.array(jax.random.normal(jax.random.key(_SEED + 1), (n, _CLASSES)))
    targets -= targets.mean(axis=0)  # neural-tangents does not take out the mean

    def theirs(ridge: float, times: Array | None) -> Callable[[], Array]:
        def predicted(train: Array, targets: Array, test: Array) -> Array:
            flow = predict.gradient_descent_mse(train, targets, diag_reg=ridge)
            return flow(times, 0.0, 0.0, test)[1]

        return partial(jax.jit(predicted), train, targets, test)

    def flow() -> np.ndarray:
        return kernels.gradient_flow(kernels.eigendecompose(train), targets, test, _TIMES).test

    peer, size = "neural-tangents", f"{n} examples, {_CLASSES} targets"
    yield Contest(
        "solving, ridge regression",
        size,
        1,
        lambda: kernels.regress(train, targets, test, ridge=_RIDGE).predictions,
        peer,
        {"predict in float32": theirs(_RIDGE, None)},
    )
    yield Contest(
        f"solving, gradient flow at {len(_TIMES)} times",
        size,
        1,
        flow,
        peer,
        {"predict in float32": theirs(0.0, jnp.asarray(_TIMES))},
    )
