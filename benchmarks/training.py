"""Training steps of our networks against PyTorch's: from the same weights, on equal batches.

Both go once through a data set of a few batches, by plain gradient descent. The mean loss of the
batches is compared, and the mean gradient: how far weights moved, over the rate and the steps.
"""

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float

from benchmarks import torch_networks
from benchmarks.measure import Contest, Skipped
from benchmarks.works import WORKS
from lsa_jax import models, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.growing import transformer
from lsa_jax.experiments.lsa.noise_curves.learners import linearized_model
from lsa_jax.experiments.stability.cifar_resnet import cifar_resnet
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.training.programs import Recipe, Source, epoch_order, make_epoch, make_init

_SEED, _CLASSES = 0, 10
_RATE = 1e-3
_MNIST, _CIFAR = (28, 28, 1), (32, 32, 3)

# Settings of PyTorch, besides "eager".
_LAST, _COMPILED = "channels last", "torch.compile"


class _Work(NamedTuple):
    """A network and how it is trained.

    Attributes:
        model: of the standard parameterisation, so that both sides have the same parameters.
        peer: the same network in PyTorch.
        example: shape of an input.
        batch: examples a step.
        steps: of one run; enough to make the cost of changing turns (new pages) negligible.
        linearised: train the network's linearisation at its initial weights.
        vocabulary: number of tokens, where inputs are tokens and each has outputs.
    """

    model: models.Model
    peer: torch_networks.Network
    example: tuple[int, ...]
    batch: int
    steps: int
    linearised: bool = False
    vocabulary: int | None = None


def contests(*, quick: bool) -> Iterator[Contest | Skipped]:
    """Yields contests, or the reasons for their absence; on tiny batches if `quick`."""
    for name in WORKS["training"]:
        if importlib.util.find_spec("torch") is None:
            yield Skipped(name, "torch is not installed")
        else:
            yield _contest(name, _work(name, quick))


def _work(name: str, quick: bool) -> _Work:
    standard = {"parameterization": "standard"}
    sizes = transformer.Sizes(*((50, 8, 8, 2, 16) if quick else (1000, 128, 256, 4, 1024)))
    wrn, wrn_of = models.wide_resnet(1, **standard), torch_networks.WIDE_RESNET
    work = {
        "MNIST CNN": lambda: _Work(models.cnn(**standard), torch_networks.CNN, _MNIST, 50, 2000),
        "WRN-10-1": lambda: _Work(wrn, wrn_of, _CIFAR, 128, 32),
        "WRN-10-4": lambda: _Work(models.wide_resnet(4, **standard), wrn_of, _CIFAR, 64, 12),
        "ResNet-20": lambda: _Work(cifar_resnet(20), torch_networks.RESNET_20, _CIFAR, 128, 16),
        "linearised WRN-10-1": lambda: _Work(wrn, wrn_of, _CIFAR, 128, 16, linearised=True),
        "Transformer stack": lambda: _Work(
            _encoder(sizes, 1 if quick else 4),
            torch_networks.encoder(sizes.heads),
            (sizes.length,),
            16,
            8,
            vocabulary=sizes.vocabulary_size,
        ),
    }[name]()
    small = (8, 8, 3) if work.example == _CIFAR else work.example
    return work._replace(example=small, batch=3, steps=2) if quick else work


def _encoder(sizes: transformer.Sizes, num_layers: int) -> models.Model:
    """Returns the encoder of so many layers, tokens [n, t] to logits [n, t, vocabulary]."""
    network = transformer.encoder(sizes)

    def apply(params: Any, tokens: Array) -> Array:
        positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
        return network.apply(params, tokens, jnp.zeros(len(tokens), int), positions)

    return models.Model(lambda key, _: network.init(key, num_layers), apply, None)


def _contest(name: str, work: _Work) -> Contest:
    data, order = _data(work)
    ours, program, start = _ours(work, data)
    return Contest(
        name,
        f"{work.steps} batches of {work.batch}, inputs {' x '.join(map(str, work.example))}",
        work.steps * work.batch,
        ours,
        "PyTorch",
        {way: _theirs(work, start, data, order, way) for way in _ways(work)},
        traced=program,
    )


def _data(work: _Work) -> tuple[Dataset, np.ndarray]:
    """Returns the examples, and their order as batches [steps, batch]."""
    rng = np.random.default_rng(_SEED)
    count = work.steps * work.batch
    order = np.asarray(epoch_order(jax.random.key(_SEED), 0, count))
    order = order.reshape(work.steps, work.batch)
    if work.vocabulary is not None:
        tokens = rng.integers(work.vocabulary, size=(2, count, *work.example), dtype=np.int32)
        return Dataset(*tokens), order
    inputs = rng.standard_normal((count, *work.example), np.float32)
    return Dataset(inputs, np.eye(_CLASSES, dtype=np.float32)[np.arange(count) % _CLASSES]), order


def _ours(work: _Work, data: Dataset) -> tuple[Callable, Callable, Any]:
    """Returns an epoch of `training.train`, its compiled part, and the network's weights."""
    model = linearized_model(work.model) if work.linearised else work.model
    frozen = ("initial",) if work.linearised else ()
    loss = training.softmax_cross_entropy if work.vocabulary is None else _token_loss
    layout, source = ReplicaLayout(1), Source.of(data)
    batch = work.batch
    recipe = Recipe(model, loss, lambda _: optax.sgd(_RATE), {}, batch, batch, frozen, layout)
    keys = layout.spread(jax.random.key(_SEED)[None])
    arrays = layout.share(source.arrays)
    start = layout.map(make_init(recipe, source), 2)(keys, None, arrays)
    program = partial(layout.map(make_epoch(recipe, source), 3), start, keys, None, arrays)
    weights = _weights(layout.gather(start.params), work)

    def run() -> np.ndarray:
        state, loss = program()
        return _compared(
            layout.gather(loss)[0], weights, _weights(layout.gather(state.params), work), work.steps
        )

    return run, program, weights


def _weights(params: Any, work: _Work) -> Any:
    """Returns the trained part of parameters [1, ...]."""
    trained = params["weights"] if work.linearised else params
    return jax.tree.map(lambda a: a[0], trained)


def _ways(work: _Work) -> list[str]:
    """Returns PyTorch's settings: its compiler takes no linearisation, and tokens no channels."""
    no_images = work.vocabulary is not None
    return ["eager", *[_LAST] * (not no_images), *[_COMPILED] * (not work.linearised)]


def _theirs(
    work: _Work, start: Any, data: Dataset, order: np.ndarray, way: str
) -> Callable[[], np.ndarray]:
    import torch

    tokens, peer = work.vocabulary is not None, work.peer
    peer = peer._replace(channels_last=way == _LAST)
    inputs = torch.from_numpy(data.inputs) if tokens else peer.images(data.inputs)
    targets = torch.from_numpy(data.targets if tokens else data.targets.argmax(axis=1)).long()
    forward = _linearised(peer, start) if work.linearised else peer.forward
    forward = torch.compile(forward) if way == _COMPILED else forward
    batches = torch.from_numpy(order.copy())

    def run() -> np.ndarray:
        weights = peer.translated(start)
        rule = torch.optim.SGD(jax.tree.leaves(weights), _RATE)
        losses = []
        for index in batches:
            rule.zero_grad()
            outputs = forward(weights, inputs[index])
            classes = outputs.shape[-1]
            loss = torch.nn.functional.cross_entropy(
                outputs.reshape(-1, classes), targets[index].reshape(-1)
            )
            loss.backward()
            rule.step()
            losses.append(float(loss.detach()))
        return _compared(np.mean(losses), start, peer.as_ours(weights), work.steps)

    return run


def _linearised(peer: torch_networks.Network, start: Any) -> Callable:
    """Returns the linearisation of a network's outputs at these weights."""
    import torch

    center = jax.tree.map(torch.detach, peer.translated(start))

    def forward(weights: Any, x: Any) -> Any:
        moved = jax.tree.map(torch.sub, weights, center)
        outputs, change = torch.func.jvp(
            lambda params: peer.forward(params, x), (center,), (moved,)
        )
        return outputs + change

    return forward


def _token_loss(outputs: Float[Array, "n t v"], targets: Array) -> Float[Array, " n"]:
    values = optax.softmax_cross_entropy_with_integer_labels(outputs, targets)
    return jnp.mean(values, axis=1)


def _compared(loss: Float[ArrayLike, ""], start: Any, end: Any, steps: int) -> np.ndarray:
    """Returns the mean loss and the mean gradient, in the order of our parameters."""
    leaves = zip(jax.tree.leaves(start), jax.tree.leaves(end), strict=True)
    moved = [np.ravel(np.asarray(a) - np.asarray(b)) / (_RATE * steps) for a, b in leaves]
    return np.concatenate([[loss], *moved])
