"""Examples and targets as users have them, as a task: classes or numbers, and splits of it."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key

from lsa_jax.arrays import input_pair, real_array
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.errors import InputError
from lsa_jax.models.model import ExampleShape, Model

Kind = Literal["classes", "numbers"]
ACCEPTED = (
    "class numbers or names [n], one-hot rows [n, c], signs or 0 and 1 [n] or [n, 1], or real "
    "targets [n] or [n, c]"
)
# Root mean squares of inputs that are far from the unit scale for which networks are initialised.
_SMALL, _LARGE = 0.02, 5.0
_FEWEST_OF_CLASS = 4  # with fewer, a quarter may hold none
_MOST_NAMED = 5  # classes in a line
# Examples that are all tested once, in folds, where no test set is given.
_FEW = 2000
_TEST_SHARE = 0.25


class Task(NamedTuple):
    """Examples and targets to be learned.

    Attributes:
        kind: "classes" or "numbers".
        train: examples; targets are one-hot rows, signs [n, 1] of two classes for a network of one
            output, or numbers with mean 0 and variance 1 a column.
        test: likewise, on the scale of `train`; None where folds of `train` are tested on.
        names: of the classes, in the order of the columns; of numbers, empty.
    """

    kind: Kind
    train: Dataset
    test: Dataset | None
    names: tuple[str, ...] = ()

    @property
    def chance(self) -> float:
        """Accuracy of the best constant answer on the examples that are tested on; 0 of numbers."""
        tested = self.train if self.test is None else self.test
        return best_constant_accuracy(tested.targets) if self.kind == "classes" else 0.0

    @property
    def words(self) -> str:
        """The task, in words."""
        columns = self.train.targets.shape[1]
        if self.kind == "classes":
            loss = "cross-entropy" if columns > 1 else "logistic loss"
            return f"{len(self.names)} classes, {loss}, accuracy"
        return f"{columns} real target{'s' * (columns > 1)}, squared error, R^2"

    @property
    def scale_hint(self) -> str:
        """Advice where inputs are far from unit scale, "" elsewhere; tokens have no scale."""
        inputs = self.train.inputs
        size = float(np.sqrt(np.mean(np.square(inputs, dtype=float))))
        if inputs.dtype.kind != "f" or size == 0 or _SMALL <= size <= _LARGE:
            return ""
        return (
            f"inputs have a root mean square of {size:.3g}, where networks expect about 1: divide "
            f"them by {size:.3g}, or standardise each column"
        )

    @property
    def class_hint(self) -> str:
        """Names classes that training or test examples lack, or may lack; "" without any."""
        if self.kind != "classes":
            return ""
        if self.test is None:
            few = self._of_fewer(_FEWEST_OF_CLASS, self.train)
            rule = f"fewer than {_FEWEST_OF_CLASS} examples of class {few}"
            return few and f"{rule}: a training or test set may have none of it"
        parts = {"training": self.train, "test": self.test}
        none = {which: self._of_fewer(1, part) for which, part in parts.items()}
        return "; ".join(
            f"no {which} examples of class {few}" for which, few in none.items() if few
        )

    def _of_fewer(self, least: int, part: Dataset) -> str:
        """Lists the classes with fewer examples in a part."""
        rows = part.targets
        rows = rows if rows.shape[1] > 1 else np.concatenate([rows < 0, rows > 0], axis=1)
        few = [name for name, n in zip(self.names, rows.sum(0), strict=True) if n < least]
        return ", ".join(few[:_MOST_NAMED]) + f" and {len(few) - _MOST_NAMED} more" * (
            len(few) > _MOST_NAMED
        )

    @property
    def hints(self) -> list[str]:
        """Advice on the examples."""
        return [hint for hint in (self.scale_hint, self.class_hint) if hint]


class Split(NamedTuple):
    """Training and test examples, and the rows of the task's `train` that are trained on."""

    train: Dataset
    test: Dataset
    rows: np.ndarray


def make_task(X: Any, y: Any, test: tuple[Any, Any] | None = None) -> Task:  # noqa: N803
    """Returns the task of inputs [n, ...] and targets, and perhaps of a test set.

    Arrays are of numpy, jax or pandas; whole numbers stay whole, as tokens must. Targets, see
    `ACCEPTED`, that are whole numbers, booleans or names, or floats that are all 0 and 1 or all -1
    and 1, are classes, as are one-hot rows; other floats are numbers.

    Raises:
        InputError: inputs or targets are not accepted.
    """
    inputs, targets = _inputs("X", X), _plain(y)
    tested = None if test is None else (_inputs("X_test", test[0]), _plain(test[1]))
    for name, x, t in (("X", inputs, targets), *((("X_test", *tested),) if tested else ())):
        if t.ndim not in (1, 2) or len(t) != len(x) or not len(x):
            of = name.replace("X", "y")
            raise InputError(
                f"{of} is of shape {t.shape} beside {name} of shape {x.shape}; accepted: {ACCEPTED}"
            )
    every = targets
    if tested is not None:
        inputs, held_inputs = input_pair(inputs, tested[0], names=("X", "X_test"))
        every = np.concatenate([targets, _alike(tested[1], targets)])
    kind, rows, names = _rows(every)
    if kind == "numbers":
        with np.errstate(over="ignore", invalid="ignore"):
            mean, spread = rows[: len(inputs)].mean(0), rows[: len(inputs)].std(0)
        # The spread of equal numbers may be a rounding error above 0.
        if not np.isfinite(spread).all():
            raise InputError("y has a column whose variance is beyond float64; accepted: smaller "
                             "numbers")  # fmt: skip
        if not (spread > 0).all() or (rows[: len(inputs)] == rows[0]).all(0).any():
            raise InputError("y has a column that is constant on the training examples; accepted: "
                             "targets that vary")  # fmt: skip
        rows = (rows - mean) / spread
    rows = rows.astype(np.float32)
    held = None if tested is None else Dataset(held_inputs, rows[len(inputs) :])
    return Task(kind, Dataset(inputs, rows[: len(inputs)]), held, names)


def as_signs(task: Task) -> Task:
    """Returns a task of two classes with targets -1 and +1, [n, 1], for one output."""

    def signs(part: Dataset | None) -> Dataset | None:
        return part and Dataset(part.inputs, 2 * part.targets[:, 1:] - 1)

    return task._replace(train=signs(task.train), test=signs(task.test))


def fitted(model: Model, task: Task) -> Task:
    """Returns the task as the network's outputs fit it: two classes are signs for one output.

    Raises:
        InputError: the network has other outputs.
    """
    params = jax.eval_shape(
        lambda key: model.init(key, ExampleShape.of(task.train.inputs)), jax.random.key(0)
    )
    found = jax.eval_shape(model.apply, params, task.train.inputs[:1])
    if len(getattr(found, "shape", ())) != 2:
        raise InputError(
            f"model turns inputs {task.train.inputs[:1].shape} into {found}; accepted: one array "
            "[n, c]; outputs[:, None] makes one column"
        )
    outputs, columns = found.shape[1], task.train.targets.shape[1]
    if task.kind == "classes" and (outputs, columns) == (1, 2):
        return as_signs(task)
    if outputs != columns:
        kind = "class" if task.kind == "classes" else "target"
        whole = task.kind == "numbers" and outputs > 1 and columns == 1
        raise InputError(
            f"model has {outputs} output{'s' * (outputs > 1)}; accepted for {task.words}: "
            f"{columns}, one for each {kind}" + "; y.astype(int) makes classes of it" * whole
        )
    return task


def splits(key: Key[Array, ""], task: Task, folds: int) -> Iterator[Split]:
    """Yields training and test examples, drawn class by class where there are classes.

    Each of the folds is tested once; 1 tests on a quarter, or on the task's own test set.

    Raises:
        InputError: too few examples.
    """
    if task.test is not None:
        yield Split(task.train, task.test, np.arange(len(task.train.targets)))
        return
    order = _by_class(key, task)
    count = len(order)
    parts = folds if folds > 1 else round(1 / _TEST_SHARE)
    if (least := max(parts, 3)) > count:  # two are left to train on
        raise InputError(
            f"folds is {folds} for {count} examples; accepted: {least} examples or more"
        )
    for part in range(folds):
        held = np.sort(order[part : count - count % parts : parts])  # all parts of one size
        rest = np.setdiff1d(np.arange(count), held)
        train, test = (Dataset(*(a[rows] for a in task.train)) for rows in (rest, held))
        yield Split(train, test, rest)


def default_folds(task: Task, examples: int) -> int:
    """Returns 3 where so many examples are too few for a test set, else 1."""
    return 3 if task.test is None and examples <= _FEW else 1


def subset(key: Key[Array, ""], task: Task, examples: int) -> Task:
    """Returns a task with so many training examples, drawn class by class."""
    if examples >= len(task.train.targets):
        return task
    order = _by_class(key, task)
    rows = np.sort(order[np.arange(examples) * len(order) // examples])
    return task._replace(train=Dataset(*(part[rows] for part in task.train)))


def _by_class(key: Key[Array, ""], task: Task) -> np.ndarray:
    """Returns the examples class by class, in random order in each; numbers in random order."""
    shuffled = np.asarray(jax.random.permutation(key, len(task.train.targets)))
    if task.kind == "numbers":
        return shuffled
    targets = task.train.targets
    classes = targets.argmax(1) if targets.shape[1] > 1 else targets[:, 0]
    return shuffled[np.argsort(classes[shuffled], kind="stable")]


def _inputs(name: str, X: Any) -> np.ndarray:  # noqa: N803
    _refuse_masked(name, X)
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        raise InputError(
            f"{name} is a {type(X).__name__} of different lengths; accepted: an array [n, ...], or "
            "the tuples (X, y) and (X_test, y_test)"
        ) from None
    if array.dtype == object:  # a table whose columns are of several types
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{name} has entries that are no numbers ({error}); accepted: numbers; "
                "pandas.get_dummies makes columns of names"
            ) from None
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32) if array.dtype == np.float64 else array
    array = real_array(name, narrow, "n ...", finite=True)
    if array.ndim == 1:
        raise InputError(
            f"{name} has shape {array.shape}; accepted: [n, ...], an axis of examples and one or "
            f"more of inputs; {name}[:, None] makes one column"
        )
    if len(array) > 1 and (array == array[:1]).all():
        raise InputError(f"{name} has the same inputs in all {len(array)} examples; accepted: "
                         "inputs that differ")  # fmt: skip
    if array.dtype.kind in "iu" and array.ndim > 3:  # images
        return np.asarray(array, np.float32)
    if array.dtype.kind in "iu" and array.dtype.itemsize < 4:  # kernels take these as floats
        return np.asarray(array, np.int32)
    return np.asarray(array)


def _refuse_masked(name: str, value: Any) -> None:
    """Raises InputError where entries are masked, which numpy would read as if they were not."""
    if np.ma.is_masked(value):
        raise InputError(f"{name} has masked entries; accepted: examples without any")


def _plain(y: Any) -> np.ndarray:
    """Returns targets as an array: of floats, whole numbers, booleans or strings."""
    _refuse_masked("y", y)
    try:
        array = np.asarray(y)
    except ValueError:
        raise InputError(
            f"y is a {type(y).__name__} of different lengths; accepted: {ACCEPTED}"
        ) from None
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.dtype == object or array.dtype.kind in "US":
        try:
            return array.astype(np.float64) if array.ndim == 2 else _named(array)
        except (TypeError, ValueError):
            raise InputError(
                f"y is an array of {array.dtype} {array.shape}; accepted: {ACCEPTED}"
            ) from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"y is an array of {array.dtype} {array.shape}; accepted: {ACCEPTED}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        lost = int((~np.isfinite(array)).any(axis=tuple(range(1, array.ndim))).sum())
        raise InputError(
            f"y has entries that are not finite in {lost} of {len(array)} examples; accepted: "
            "finite numbers; leave these examples out"
        )
    return array


def _named(array: np.ndarray) -> np.ndarray:
    if array.dtype == object and any(value is None or value != value for value in array.ravel()):
        raise InputError("y has missing entries; accepted: a target for every example")
    for kinds, dtype in (((int, np.integer), np.int64), ((int, float, np.number), np.float64)):
        if all(isinstance(value, kinds) for value in array.ravel()):
            return array.astype(dtype)
    return array.astype(str)


def _alike(tested: np.ndarray, targets: np.ndarray) -> np.ndarray:
    if tested.shape[1:] != targets.shape[1:]:
        raise InputError(
            f"y_test is of shape {tested.shape} and y of {targets.shape}; accepted: equal columns"
        )
    if targets.dtype.kind in "iu" and tested.dtype.kind == "f" and (tested % 1 == 0).all():
        tested = tested.astype(np.int64)  # class numbers, as text files give them
    if _kind(targets) != _kind(np.concatenate([targets, tested])):
        raise InputError(
            f"y has classes, {_values(targets)}, and y_test has {_values(tested)}; accepted: one "
            "way of writing the classes"
        )
    return tested


def _values(y: np.ndarray) -> str:
    """Returns the first of the different values of targets."""
    values = np.unique(y)
    return ", ".join(map(str, values[:_MOST_NAMED])) + " and others" * (len(values) > _MOST_NAMED)


def _kind(y: np.ndarray) -> Kind:
    """Returns whether targets are classes or numbers."""
    if y.ndim == 2:
        classes = np.isin(y, (0, 1)).all() and (y.sum(1) == 1).all()
    else:
        classes = y.dtype.kind != "f" or any(np.isin(y, two).all() for two in ((0, 1), (-1, 1)))
    return "classes" if classes else "numbers"


def _rows(y: np.ndarray) -> tuple[Kind, np.ndarray, tuple[str, ...]]:
    """Returns the kind of targets, their rows [n, c] and the names of classes."""
    if _kind(y) == "numbers":
        return "numbers", y.reshape(len(y), -1).astype(float), ()
    if y.ndim == 2:
        return "classes", y, tuple(map(str, range(y.shape[1])))
    values, numbers = np.unique(y, return_inverse=True)
    if not 2 <= len(values) <= max(len(y) // 2, 2):
        raise InputError(
            f"y has {len(values)} different classes in {len(y)} examples; accepted: 2 classes or "
            "more with several examples each, or floats for real targets"
        )
    return "classes", np.eye(len(values))[numbers], tuple(map(str, values))
