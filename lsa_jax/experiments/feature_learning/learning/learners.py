"""The learners: start and first two steps, minibatches, measures on the way, exact fits.

Everything here is of one replica; random numbers are functions of its seed, or of (seed, step).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg
from jax import lax
from jaxtyping import Array, Float, Int, Key

from lsa_jax import kernels
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning.settings import rate_of
from lsa_jax.experiments.feature_learning.learning.tasks import Learning, PatternTask, make_task
from lsa_jax.experiments.feature_learning.networks import Params, truncated_relu_network
from lsa_jax.models.model import Model
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Config, Outcome, with_test
from lsa_jax.training.course import Course, Measuring, course_of
from lsa_jax.training.losses import hinge, is_correct
from lsa_jax.training.optimizers import descend, make_optimizer
from lsa_jax.training.programs import join, split
from lsa_jax.training.segments import kept_if

# Full-batch steps that a learner starts with; the first of `steps` are these.
FIRST_STEPS = {"network": 2, "one_step": 1, "two_step": 2}
_ON_FEATURES = ("random_features", "one_step", "two_step")
# Parameters that stay as they are after the first steps.
_FROZEN = dict.fromkeys(_ON_FEATURES, ("w", "b")) | {"ntk": ("initial",)}

# Learners that are fitted exactly, and the number of first steps of their features.
EXACT = {"one_step_exact": 1, "two_step_exact": 2}
_NEURONS = ("cosine", "cosine_minus", "share_near")

# Test examples of the small test set that accuracies are reported on, too.
FEW_EXAMPLES = 500

Row = dict[str, Float[Array, ""]]
_Arrays = Array | np.ndarray


class LearnerReplica(NamedTuple):
    """One run's key, examples, ground truth at length 1, std of its initial a, and later rate."""

    key: Key[Array, ""]
    train: Dataset
    test: Dataset
    direction: Float[Array, " p"]
    output_std: Float[Array, ""]
    rate: Float[Array, ""]


class LearnerState(NamedTuple):
    """One run between two steps; `step` stays where it is once a loss was not finite.

    `idle_scale` is the factor of the initial weights orthogonal to all inputs.
    """

    params: Any
    opt_state: Any
    step: Int[Array, ""]
    idle_scale: Float[Array, ""]


def make_replica(config: Config, task: PatternTask) -> LearnerReplica:
    """Returns a run's arrays, from its settings and its task."""
    std = config.output_std
    if config.learner == "memorise":
        std = config.memorise.output_std
    elif std is None:
        std = task.scale**2 / (task.gamma * config.data.k**2)
    return LearnerReplica(
        jax.random.key(config.seed),
        task.train,
        task.test,
        jnp.asarray(task.direction),
        jnp.float32(std),
        jnp.float32(rate_of(config)),
    )


def network_of(config: Config, replica: LearnerReplica, noise_std: float = 0.0) -> Model:
    """Returns the network that all learners start from."""
    std = config.data.k**-0.5 if config.weight_std is None else config.weight_std
    stds = {"weight_std": std, "bias_std": config.bias_std, "output_std": replica.output_std}
    return truncated_relu_network(config.m, **stds, noise_std=noise_std)


def initial_params(config: Config, replica: LearnerReplica) -> tuple[Params, Array]:
    """Draws the network.

    Returns its parameters in the space of the inputs, w [p, 2 m], and the weights orthogonal to all
    inputs, [d - p, 2 m], which no gradient changes.
    """
    key = jax.random.fold_in(replica.key, Learning.INIT)
    params = network_of(config, replica).init(key, (config.data.d,))
    p = replica.direction.shape[0]
    return params | {"w": params["w"][:p]}, params["w"][p:]


def class_weights(targets: Float[Array, " n"], balanced: bool) -> Float[Array, " n"]:
    """Returns each example's weight: 1, or one over twice the share of its class.

    Source: Shi, Wei and Liang (2022), eq. 295.
    """
    if not balanced:
        return jnp.ones_like(targets)
    positive = jnp.mean(targets > 0)
    return 0.5 / jnp.where(targets > 0, positive, 1 - positive)


def _full_gradient(config: Config, params: Params, replica: LearnerReplica) -> Params:
    """Returns the gradient of the mean hinge loss over all examples."""
    apply = network_of(config, replica, config.smoothing).apply
    inputs, targets = replica.train
    weights = class_weights(targets, config.class_weights != "none")
    pieces = jax.tree.map(
        lambda a: a.reshape(-1, config.batch_size, *a.shape[1:]), (inputs, targets, weights)
    )

    def loss(params: Params, piece: tuple[Array, Array, Array]) -> Array:
        inputs, targets, weights = piece
        return jnp.sum(weights * hinge(apply(params, inputs), targets)) / len(replica.train.targets)

    def add(total: Params, piece: tuple[Array, Array, Array]) -> tuple[Params, None]:
        return jax.tree.map(jnp.add, total, jax.grad(loss)(params, piece)), None

    return lax.scan(add, jax.tree.map(jnp.zeros_like, params), pieces)[0]


def first_stages(config: Config, replica: LearnerReplica) -> list[tuple[Params, Float[Array, ""]]]:
    """Returns parameters and idle scale at the start, after step 1 and after step 2.

    Decay of 1 / (2 eta) makes w the gradient's step alone in step 1, and w and a in step 2. So the
    decayed start is left out rather than subtracted, which float32 would not do exactly; step 1
    keeps `leftover` times eta of it.

    Source: Shi, Wei and Liang (2022), section 3.1 and theorem 26; class weights: eq. 295.
    """
    start, _ = initial_params(config, replica)
    eta, kept = config.first_rate, config.leftover * config.first_rate
    slope = _full_gradient(config, start, replica)
    one = jax.tree.map(lambda p, g: p - eta * g, start, slope)
    one["w"] = kept * start["w"] - eta * slope["w"]
    slope = _full_gradient(config, one, replica)
    eta = config.second_rate
    if eta is None:
        moments = replica.train.inputs.T @ replica.train.inputs / len(replica.train.targets)
        squares = jnp.sum(slope["w"] * (moments @ slope["w"]), axis=0)
        alive = jnp.maximum(jnp.sum(squares > 0), 1)
        eta = config.feature_scale / jnp.sqrt(jnp.sum(squares) / alive)
    two = {"w": -eta * slope["w"], "b": one["b"] - eta * slope["b"], "a": -eta * slope["a"]}
    return [(start, jnp.float32(1)), (one, jnp.float32(kept)), (two, jnp.float32(0))]


def total_steps(config: Config) -> int:
    """Returns the updates of a run in all."""
    if config.learner == "memorise":
        return config.memorise.epochs * (config.data.num_train // config.batch_size)
    return config.steps


def _optimizer(config: Config, replica: LearnerReplica) -> optax.GradientTransformation:
    if config.learner == "memorise":
        schedule = optax.cosine_decay_schedule(replica.rate, total_steps(config))
        return make_optimizer("adam", schedule)
    return make_optimizer("momentum", replica.rate, momentum=config.momentum)


def _apply(config: Config, replica: LearnerReplica) -> Callable:
    """Returns the learner's model as `(params, inputs) -> outputs [n, 1]`."""
    apply = network_of(config, replica).apply
    if config.learner != "ntk":
        return apply

    def linear(params: dict[str, Any], x: Array) -> Array:
        expanded = kernels.linearize(apply, params["initial"], precision="default")
        return expanded(params["weights"], x)

    return linear


def start_states(config: Config, replica: LearnerReplica) -> LearnerState:
    """Returns the states of a run before its minibatches, along a first axis.

    One of a learner on fixed features or of a frozen stage, three of the network.
    """
    first = FIRST_STEPS.get(config.learner, 0)
    stages = [(initial_params(config, replica)[0], jnp.float32(1))]
    if first:
        stages = first_stages(config, replica)[: first + 1]
    if config.learner in _ON_FEATURES:
        stages = [(params | {"a": jnp.zeros_like(params["a"])}, s) for params, s in stages[-1:]]
    if config.learner == "ntk":
        stages = [({"initial": params, "weights": params}, s) for params, s in stages]
    states = []
    for step, (params, idle_scale) in enumerate(stages, start=first - len(stages) + 1):
        trained, _ = split(params, _FROZEN.get(config.learner, ()))
        opt_state = _optimizer(config, replica).init(trained)
        states.append(LearnerState(params, opt_state, jnp.int32(step), idle_scale))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def batch_rows(
    key: Key[Array, ""], first: Int[Array, ""], count: int, num_examples: int, batch_size: int
) -> Int[Array, "count batch"]:
    """Returns the examples of steps `first` to `first` + `count` - 1, reshuffled every epoch."""
    per_epoch = num_examples // batch_size
    epochs = first // per_epoch + jnp.arange(-(-count // per_epoch) + 1)
    orders = jax.vmap(
        lambda epoch: jax.random.permutation(jax.random.fold_in(key, epoch), num_examples)
    )(epochs)
    rows = orders[:, : per_epoch * batch_size].reshape(-1, batch_size)
    return lax.dynamic_slice_in_dim(rows, first % per_epoch, count)


def take_steps(
    loss: Callable[[Any, Int[Array, " batch"]], Float[Array, ""]],
    optimizer: optax.GradientTransformation,
    rows: Int[Array, "steps batch"],
    state: Any,
    num_steps: Int[Array, ""],
    frozen: tuple[str, ...] = (),
) -> tuple[Any, Float[Array, ""]]:
    """Takes steps on batches, up to the first loss that is not finite; returns the last loss too.

    `loss(params, rows)` is the mean over the examples `rows`. Parameters named in `frozen` stay as
    they are, and so does the state's `step` after the end.
    """
    first = state.step

    def take(index: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
        state, _ = carry
        trained, fixed = split(state.params, frozen)
        both = jax.value_and_grad(lambda trained: loss(join(trained, fixed), rows[index]))
        value, trained, opt_state = descend(optimizer, both, trained, state.opt_state)
        params, going = join(trained, fixed), jnp.isfinite(value) & (state.step == first + index)
        after = state._replace(params=params, opt_state=opt_state, step=state.step + 1)
        return kept_if(going, after, state), value

    return lax.fori_loop(0, num_steps, take, (state, jnp.float32(jnp.nan)))


def advance(
    config: Config,
    count: int,
    state: LearnerState,
    replica: LearnerReplica,
    num_steps: Int[Array, ""],
) -> tuple[LearnerState, Row]:
    """Takes up to `count` minibatch steps, then measures the run where it then stands."""
    apply, (inputs, targets) = _apply(config, replica), replica.train
    order = jax.random.fold_in(replica.key, Learning.ORDER)
    rows = batch_rows(order, state.step, count, len(targets), config.batch_size)
    weights = class_weights(targets, config.class_weights == "all_steps")

    def mean_loss(params: Any, batch: Int[Array, " batch"]) -> Float[Array, ""]:
        losses = hinge(apply(params, inputs[batch]), targets[batch])
        return jnp.mean(weights[batch] * losses)

    frozen = _FROZEN.get(config.learner, ())
    state, loss = take_steps(mean_loss, _optimizer(config, replica), rows, state, num_steps, frozen)
    return state, {"batch_loss": loss} | measure(config, state, replica)


def correct(apply: Callable, params: Any, dataset: Dataset, batch_size: int) -> Float[Array, " n"]:
    """Returns 1.0 for examples that a model has right, in pieces of a batch."""
    count = len(dataset.targets)
    pieces = -(-count // batch_size)
    index = jnp.arange(pieces * batch_size).reshape(pieces, batch_size) % count

    def right(rows: Array) -> Array:
        return is_correct(apply(params, dataset.inputs[rows]), dataset.targets[rows])

    return lax.map(right, index).reshape(-1)[:count]


def accuracies(known: _Arrays, right: _Arrays, targets: _Arrays) -> dict[str, Any]:
    """Returns accuracies by where the first training, and all test examples are right.

    `test_first_accuracy` is that of the first test examples, as few as the paper's rows suggest:
    these differ from training by more than 10,000 examples would.
    """
    classes = [(right * side).sum() / side.sum() for side in (targets > 0, targets < 0)]
    return {
        "train_accuracy": known.mean(),
        "test_accuracy": right.mean(),
        "test_balanced_accuracy": (classes[0] + classes[1]) / 2,
        "test_first_accuracy": right[:FEW_EXAMPLES].mean(),
    }


def results_on_test(
    config: Config, state: LearnerState, replica: LearnerReplica
) -> Float[Array, " n"]:
    """Returns 1.0 for test examples that a run has right."""
    return correct(_apply(config, replica), state.params, replica.test, config.batch_size)


def cosines(
    weights: Float[Array, "p neurons"],
    idle: Float[Array, "q neurons"],
    direction: Float[Array, " p"],
) -> Float[Array, " neurons"]:
    """Returns each neuron's cosine with a direction of length 1; 0 for a weight of zero.

    Weights have coordinates in the space of the inputs, as the direction, and idle ones besides.
    """
    # Weights after step 1 are as small as 1e-6: their squares must not underflow.
    largest = jnp.maximum(jnp.max(jnp.abs(weights)), jnp.max(jnp.abs(idle), initial=0.0))
    largest = jnp.where(largest > 0, largest, 1.0)
    weights, idle = weights / largest, idle / largest
    norms = jnp.sqrt(jnp.sum(weights**2, axis=0) + jnp.sum(idle**2, axis=0))
    return jnp.where(norms > 0, direction @ weights / jnp.where(norms > 0, norms, 1.0), 0.0)


def measure(config: Config, state: LearnerState, replica: LearnerReplica) -> Row:
    """Measures a run: accuracies, and how near neurons are to the truth.

    The linearised network has no neurons that turn; its cosines are NaN.
    """
    first = Dataset(*(part[: len(replica.test.targets)] for part in replica.train))
    right = results_on_test(config, state, replica)
    known = correct(_apply(config, replica), state.params, first, config.batch_size)
    row = accuracies(known, right, replica.test.targets)
    if config.learner == "ntk":
        return row | dict.fromkeys(_NEURONS, jnp.float32(jnp.nan))
    idle = state.idle_scale * initial_params(config, replica)[1]
    return row | neuron_measures(config, state.params, idle, replica.direction)


def neuron_measures(
    config: Config, params: Params, idle: Float[Array, "q neurons"], direction: Float[Array, " p"]
) -> Row:
    """Returns how near neurons are to the truth; the arguments are those of `cosines`."""
    found = cosines(params["w"], idle, direction)
    near = jnp.abs(found) >= np.cos(np.deg2rad(config.angle))
    values = (jnp.max(found), jnp.max(-found), jnp.mean(near))
    return dict(zip(_NEURONS, values, strict=True))


def course_of_runs(
    config: Config, apply: Callable, starts: Any, trains: list[Dataset], steps: list[int]
) -> Course | None:
    """Returns the measures of runs along training, on their own examples; None if none are asked.

    Parameters at the start are [runs, ...], training examples by run; the steps, at which measures
    may be taken, increase.
    """

    def fetch(run: int, index: Array) -> tuple[Any, Any]:
        return trains[run].inputs[index], trains[run].targets[index]

    measuring = Measuring(config.measures, config.measured_examples)
    count, seen = len(trains[0].targets), config.batch_size * steps[-1]
    return course_of(measuring, apply, starts, fetch, count, steps, seen)


def least_squares(
    features: Float[np.ndarray, "n p"],
    targets: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " p"]:
    """Returns the a of least norm with the least sum of weights * (features a - targets)^2."""
    root = np.sqrt(weights)[:, None]
    both = np.concatenate([features, targets[:, None]], axis=1) * root
    (triangle,) = scipy.linalg.qr(both, mode="r", overwrite_a=True, check_finite=False)
    p = features.shape[1]
    tolerance = np.finfo(float).eps * max(features.shape)
    return np.linalg.lstsq(triangle[:p, :p], triangle[:p, p], rcond=tolerance)[0]


def _features(params: dict, inputs: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    w, b = (np.asarray(params[name], np.float64) for name in "wb")
    return np.clip(np.asarray(inputs, np.float64) @ w + b, 0, 1)


def feature_size(w: Float[np.ndarray, "d p"], inputs: Float[np.ndarray, "n d"]) -> float:
    """Returns the root mean square of <w, x> over neurons and examples.

    Where it is small compared with the biases' scale, features are nearly linear: a neuron is
    linear on examples between its kinks.
    """
    w, rows = np.asarray(w, np.float64), np.asarray(inputs, np.float64)
    moments = rows.T @ rows / len(rows)
    return float(np.sqrt(np.mean(np.sum(w * (moments @ w), axis=0))))


def fit_exactly(config: Config) -> Outcome:
    """Returns the outcome of the best linear model on a seed's features after one step or two.

    Shi, Wei and Liang (2022), appendix E.1, train "the best classifier" on frozen features. After a
    step as small as theirs features differ by a millionth of themselves, too little for float32;
    descent on them, tried at one rate, stays at chance. So this is least squares, in float64.
    """
    task = make_task(config)
    replica, (inputs, targets) = make_replica(config, task), task.train
    start = jax.jit(lambda own: (first_stages(config, own), initial_params(config, own)[1]))
    stages, idle = start(replica)
    params, idle_scale = stages[EXACT[config.learner]]
    weights = class_weights(jnp.asarray(targets), config.class_weights == "all_steps")
    weights = np.asarray(weights, np.float64)
    train = _features(params, inputs)
    model = least_squares(train, np.asarray(targets, np.float64), weights)
    right = (_features(params, task.test.inputs) @ model > 0) == (task.test.targets > 0)
    known = (train[: len(right)] @ model > 0) == (targets[: len(right)] > 0)
    found = accuracies(known, right, np.asarray(task.test.targets))
    found["feature_size"] = feature_size(np.asarray(params["w"]), inputs)
    found |= neuron_measures(config, params, idle_scale * idle, replica.direction)
    measures = {name: float(value) for name, value in found.items()}
    row = {"step": EXACT[config.learner]} | measures
    return with_test([Outcome(measures, [row], outcomes=Outcomes(right))], task.test)[0]
