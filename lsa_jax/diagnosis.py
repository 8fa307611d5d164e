"""Lazy or rich, of any network and data: one call in a notebook, one verdict.

model = models.from_flax_linen(module)
found = lsa_jax.diagnose(model.apply, model.init, train, test)
found.table, found.verdict.sentence, found.figure()
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from jaxtyping import Array, Key

from lsa_jax import kernels, training
from lsa_jax.checks import integer, number, optional, require
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.verdict import Verdict, decide
from lsa_jax.models.model import ExampleShape, Model
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.training.measures import check_alone

# The measures whose cost does not depend on the kinds of layers.
MEASURES = ("kernel_distance", "kernel_alignment", "target_alignment", "weight_movement")
_WARMUP = 0.1  # of all steps
# A network is trained to the end, on few examples as well.
_LEAST_STEPS, _LEAST_EPOCHS = 2000, 40


class Diagnosis(NamedTuple):
    """Results of a network and of its kernels.

    Attributes:
        rows: one a learner and seed: `test_accuracy`; for the network also `train_accuracy` and the
            measures of its distance from its start.
        verdict: lazy or rich, with its numbers.
    """

    rows: pd.DataFrame
    verdict: Verdict

    @property
    def table(self) -> pd.DataFrame:
        """Test accuracy in percent by learner, mean ± standard deviation over seeds."""
        cells = (100 * self.rows["test_accuracy"]).groupby(self.rows["learner"], sort=False)
        cells = cells.apply(mean_and_spread, ".2f").rename("test accuracy (%)").reset_index()
        return cells.assign(learner=[LEARNERS[name].label for name in cells["learner"]])

    def figure(self) -> Any:
        """Returns a figure of the learners' test accuracies, a point a seed."""
        import matplotlib.pyplot as plt

        figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
        for learner, rows in self.rows.groupby("learner", sort=False):
            names = [LEARNERS[learner].label] * len(rows)
            axis.plot(100 * rows["test_accuracy"], names, "o", color=LEARNERS[learner].colors[0])
        axis.set(xlabel="test accuracy (%)", title=self.verdict.word)
        axis.invert_yaxis()
        return figure


def diagnose(
    apply: Callable[[Any, Array], Array],
    init: Callable[[Key[Array, ""], tuple[int, ...]], Any],
    train: Dataset,
    test: Dataset,
    *,
    key: Key[Array, ""] | None = None,
    params: Sequence[tuple[Any, Any]] = (),
    kernel: Callable[..., Array] | None = None,
    seeds: int = 3,
    epochs: int | None = None,
    batch_size: int = 50,
    optimizer: optax.GradientTransformation | None = None,
    ridge: float = 1e-3,
    measured_examples: int = 128,
) -> Diagnosis:
    """Decides whether a network learns features of some data, or only fits a kernel.

    It trains the network, and fits exact ridge regressions with its finite NTK at the start and
    after training, and with its infinite-width kernel where there is one. Kernels take O(n^2 c P)
    operations for P parameters and c outputs, and O(n^3): a few thousand examples.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, each example by itself.
        init: `(key, input_shape) -> params`.
        train: examples with one-hot targets.
        test: likewise.
        key: draws initial parameters and the order of examples; None is `jax.random.key(0)`.
        params: pairs (at the start, trained) of existing networks: nothing is trained, and each
            pair is a seed.
        kernel: `(x1, x2=None) -> [n1, n2]` at infinite width, such as `model.ntk`.
        seeds: number of networks to train; with one, only test examples decide, and the verdict
            mentions it.
        epochs: passes over the training examples; None: as many as 2,000 steps take, and at least
            40. A network that has fewer than 99 % of its training examples right after them is rich
            or undecided.
        batch_size: examples a step.
        optimizer: None is Adam with a peak rate of 1e-3 and a cosine's half.
        ridge: of the regressions, over the kernels' mean diagonal.
        measured_examples: first training examples that measures are taken on.

    Raises:
        InputError: an argument is not accepted.
        NumericalError: a kernel or its solution is not finite.
    """
    require("seeds", seeds, integer(1))
    require("epochs", epochs, optional(integer(1)))
    require("batch_size", batch_size, integer(1))
    require("ridge", ridge, number(0))
    require("measured_examples", measured_examples, integer(2))
    if np.ndim(train.targets) != 2 or np.shape(train.targets)[1] < 2:
        raise InputError(f"train.targets is {np.shape(train.targets)}; accepted: one-hot, (n, c)")
    if not params:
        model = Model(init, apply, None)
        per_epoch = -(-len(train.targets) // batch_size)
        if epochs is None:
            epochs = max(_LEAST_EPOCHS, -(-_LEAST_STEPS // per_epoch))
        optimizer = optimizer or _adam(per_epoch * epochs)
        key = jax.random.key(0) if key is None else key
        params = [
            _train(jax.random.fold_in(key, seed), model, train, optimizer, epochs, batch_size)
            for seed in range(seeds)
        ]
    fixed = {"ntk_infinite": kernel} if kernel else {}  # a network without a limit has a false one
    table, outcomes = _compare(apply, params, fixed, train, test, ridge, measured_examples)
    runs = Runs.of([], table.assign(id=list(outcomes)), outcomes)
    return Diagnosis(table, decide(runs))


def _compare(
    apply: Callable[[Any, Array], Array],
    params: Sequence[tuple[Any, Any]],
    fixed: Mapping[str, Callable[..., Array]],
    train: Dataset,
    test: Dataset,
    ridge: float,
    measured_examples: int,
) -> tuple[pd.DataFrame, dict[str, Outcomes]]:
    """Returns a row a learner and seed, and the outcomes in the same order.

    `fixed` has the kernels, by learner, that are the same for all pairs of parameters.
    """
    check_alone(apply, params[0][1], train.inputs)
    fits = partial(_regress, train=train, test=test, ridge=ridge)
    known = {name: fits(kernel) for name, kernel in fixed.items()}
    few, rows, kept = Dataset(*(part[:measured_examples] for part in train)), [], {}
    for seed, (start, trained) in enumerate(params):
        outputs = {
            "network": apply(trained, jnp.asarray(test.inputs)),
            "ntk_trained": fits(kernels.finite_kernel(apply, trained)),
            "ntk_finite": fits(kernels.finite_kernel(apply, start)),
        }
        fitted = np.mean(_correct(apply(trained, jnp.asarray(train.inputs)), train))
        measured = training.measures.measure(MEASURES, apply, start, trained, *few)
        for name, predictions in (outputs | known).items():
            correct = _correct(predictions, test)
            row = {"learner": name, "seed": seed, "test_accuracy": float(np.mean(correct))}
            own = {"train_accuracy": float(fitted), **measured} if name == "network" else {}
            rows.append(row | own)
            kept[f"{name}-{seed}"] = Outcomes(correct, "test")
    classes = np.shape(train.targets)[1]
    sizes = {"num_train": len(train.targets), "num_test": len(test.targets), "num_classes": classes}
    sizes["chance"] = best_constant_accuracy(test.targets)
    return pd.DataFrame(rows).assign(**sizes), kept


def _correct(outputs: Any, examples: Dataset) -> np.ndarray:
    return np.asarray(training.is_correct(outputs, examples.targets), bool)


def _adam(steps: int) -> optax.GradientTransformation:
    warmup = max(1, round(_WARMUP * steps))
    return optax.adam(optax.warmup_cosine_decay_schedule(0.0, 1e-3, warmup, max(steps, warmup + 1)))


def _train(
    key: Key[Array, ""],
    model: Model,
    train: Dataset,
    optimizer: optax.GradientTransformation,
    epochs: int,
    batch_size: int,
) -> tuple[Any, Any]:
    """Returns a network's parameters at the start and after training."""
    draw, order = jax.random.split(key)
    start = model.init(draw, ExampleShape.of(train.inputs))
    drawn = model._replace(init=lambda key, input_shape: start)
    try:
        trained, _ = training.train(
            order,
            drawn,
            train,
            training.softmax_cross_entropy,
            optimizer,
            epochs=epochs,
            batch_size=batch_size,
        )
    except NumericalError as error:
        raise InputError(
            f"optimizer: training failed ({error}); accepted: one with a smaller learning rate"
        ) from None
    return start, trained


def _regress(kernel: Callable[..., Array], train: Dataset, test: Dataset, ridge: float) -> Any:
    gram_train = kernels.gram(kernel, train.inputs)
    gram_test = kernels.gram(kernel, test.inputs, train.inputs)
    return kernels.regress(gram_train, train.targets, gram_test, ridge=ridge).predictions
