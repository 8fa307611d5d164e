"""A checkpoint is gone on from by the run that it is of, in any process, and by no other."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax import backend
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.models.model import Model
from lsa_jax.parallel import BATCH_AXIS, ReplicaLayout
from lsa_jax.preflight.dry_run import DryRun
from lsa_jax.training import LOSSES, Checkpoints, Evaluation, identities, train
from lsa_jax.training.growth import Operator
from lsa_jax.training.lag import grow_and_select
from lsa_jax.training.losses import is_correct
from lsa_jax.training.programs import Recipe, Source
from lsa_jax.training.segments import run_segments
from lsa_jax.training.steps import NetworkState, Problem, train_steps

INPUTS = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
DATA = Dataset(INPUTS, np.eye(3, dtype=np.float32)[np.arange(12) % 3])
OTHER = DATA._replace(targets=DATA.targets[::-1].copy())
COPY = Operator(1, 1, "copy")
START = np.full((5, 3), 0.1, np.float32)


def network(start=START, scale=1.0):
    def init(key, input_shape):
        return {"weight": start + jax.random.normal(key, (5, 3)), "shift": jnp.zeros((1, 3))}

    return Model(init, lambda p, x: scale * (x @ p["weight"]) + p["shift"], None)


def settings():
    return {
        "key": jax.random.split(jax.random.key(0), 2),
        "model": network(),
        "data": DATA,
        "loss": LOSSES["softmax_cross_entropy"],
        "optimizer": lambda rate: optax.sgd(rate),
        "replicas": jnp.array([0.1, 0.2]),
        "epochs": 2,
        "batch_size": 4,
        "evaluation": Evaluation(DATA, every=10),
    }


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kept")
    train(**settings(), checkpoints=Checkpoints(directory))
    return directory


def wrong(outputs, targets):
    return 1 - is_correct(outputs, targets)


@pytest.mark.parametrize(
    ("named", "given"),
    [
        ("keys", {"key": jax.random.split(jax.random.key(1), 2)}),
        ("replicas", {"replicas": jnp.array([0.1, 0.3])}),
        ("epochs", {"epochs": 3}),
        ("frozen parameters", {"frozen": ("shift",)}),
        ("batch size", {"batch_size": 6}),
        ("training examples", {"data": OTHER}),
        ("test examples", {"evaluation": Evaluation(OTHER, every=10)}),
        ("initial parameters", {"model": network(START + 1)}),
        ("model, loss or optimiser", {"model": network(scale=2.0)}),
        ("model, loss or optimiser", {"loss": LOSSES["squared_error"]}),
        ("model, loss or optimiser", {"optimizer": lambda rate: optax.sgd(2 * rate)}),
        ("evaluation", {"evaluation": Evaluation(DATA, {"accuracy": wrong}, 10)}),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_what_differs_is_named(kept, named, given):
    with pytest.raises(InputError) as refused:
        train(**settings() | given, checkpoints=Checkpoints(kept))
    names = re.fullmatch(
        f"the checkpoint is of other (.*) than this run's; remove the folder {kept} to start the "
        "run again",
        str(refused.value),
    )
    assert named in names[1]
    if named != "model, loss or optimiser":  # whose program has the other things in it, too
        known = identities.of_training(*_of(settings())).keys() - {"model, loss or optimiser"}
        assert not any(other in names[1] for other in known - {named} - _follow(named))


def _follow(named):
    """What else differs where this does: the programs that it is a constant of."""
    return {"frozen parameters": {"initial parameters"}}.get(named, set())


def _of(given):
    """Returns what `of_training` takes, of the arguments of `train`."""
    recipe = Recipe(
        given["model"],
        given["loss"],
        given["optimizer"],
        {"accuracy": is_correct},
        given["batch_size"],
        given["evaluation"].batch_size,
        (),
        ReplicaLayout(2),
    )
    sources = {"train": Source.of(given["data"]), "test": Source.of(given["evaluation"].test)}
    return recipe, sources, given["key"], given["replicas"], given["epochs"], given["evaluation"]


def test_a_run_is_the_same_in_another_process_on_other_devices():
    program = (
        f"import runpy; own = runpy.run_path({__file__!r})\n"
        "print(own['identities'].of_training(*own['_of'](own['settings']())))"
    )
    root = str(Path(__file__).parents[2])
    other = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", program]
    found = subprocess.run(
        command, env=os.environ | other, cwd=root, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(identities.of_training(*_of(settings())))


def test_the_same_run_is_gone_on_from_also_on_other_devices(kept):
    alone = ReplicaLayout(2, jax.devices()[:1])
    again, _ = train(**settings(), checkpoints=Checkpoints(kept), layout=alone)
    expected, _ = train(**settings())
    np.testing.assert_array_equal(again["weight"], expected["weight"])


def test_a_state_of_other_shapes_is_refused_and_the_first_one_named(kept):
    wider = DATA._replace(inputs=np.ones((12, 7), np.float32))
    model = Model(
        lambda key, shape: {"weight": jnp.zeros((7, 3)), "shift": jnp.zeros((1, 3))},
        network().apply,
        None,
    )
    # Arrays come in the order of their names: the shift, and then the weight.
    message = r"its array 1 is float32\[2, 5, 3\], and this run's is float32\[2, 7, 3\]; remove"
    with pytest.raises(InputError, match=message):
        given = {"model": model, "data": wider, "evaluation": Evaluation(wider, every=10)}
        train(**settings() | given, checkpoints=Checkpoints(kept))


def test_what_a_run_is_is_not_asked_for_where_nothing_is_kept(tmp_path):
    def fail():
        raise AssertionError("not to be asked for")

    run = functools.partial(
        run_segments, np.ones(1), np.zeros(1), [1], lambda state, _: state, identity=fail
    )
    run()
    with backend.noted_by(DryRun(without_data=True)):
        run(kept=Checkpoints(tmp_path))


def test_a_program_that_averages_over_parts_of_a_batch_has_a_number():
    def averaged(x):
        return jax.lax.pmean(x, BATCH_AXIS)

    numbers = [identities.of_program(f, np.ones(3)) for f in (averaged, averaged, lambda x: x)]
    assert numbers[0] == numbers[1] != numbers[2]


@pytest.mark.parametrize("leaf", [jnp.float32(1), np.zeros((0, 3)), jnp.ones(3, jnp.bfloat16), 2])
def test_arrays_of_any_type_have_a_number_that_types_and_shapes_are_part_of(leaf):
    shaped = np.asarray(leaf)[None]
    numbers = {identities.of_arrays(tree) for tree in (leaf, [leaf, leaf], shaped, None)}
    assert len(numbers) == 4 and identities.of_arrays({"a": leaf}) in numbers


def chain_loss(params, batch):
    errors = 0.5 * jnp.square(batch * jnp.prod(params["layers"]["w"]) - 1)
    return errors.sum(), jnp.float32(len(errors))


def chain(rate=0.01, loss=chain_loss, first=1.0, validation=2.0):
    def batches(start, count):
        return np.full((count, 4), first, np.float32)

    return Problem(loss, optax.adam(rate), batches, np.full((1, 4), validation, np.float32))


def grown(problem, directory, operator=COPY, scale=1.0):
    params = {"layers": {"w": scale * jnp.array([2.0, 0.5])}}
    fresh = {"layers": {"w": jnp.full(3, 0.1)}}
    state = NetworkState(params, problem.optimizer.init(params))
    return grow_and_select(
        problem, state, fresh, [operator], steps=2, window=2, directory=directory
    )


@pytest.mark.parametrize(
    ("named", "problem", "given"),
    [
        ("networks at the start", {}, {"operator": Operator(1, 1, "random")}),
        ("networks at the start", {}, {"operator": Operator(0, 1, "copy")}),
        ("networks at the start", {}, {"scale": 0.5}),
        ("optimiser", {"rate": 0.02}, {}),
        ("loss", {"loss": lambda params, batch: (2 * chain_loss(params, batch)[0], 4.0)}, {}),
        ("data", {"first": 3.0}, {}),
        ("data", {"validation": 3.0}, {}),
    ],
)
def test_a_search_is_not_answered_with_the_losses_of_another(tmp_path, named, problem, given):
    first = grown(chain(), tmp_path)
    assert grown(chain(), tmp_path).scores == first.scores
    with pytest.raises(InputError, match=f"of other {named} than this run's; remove the folder"):
        grown(chain(**problem), tmp_path, **given)


def test_losses_measured_before_other_steps_are_not_taken_for_these(tmp_path):
    problem = chain()
    params = {"layers": {"w": np.array([[2.0, 0.5]], np.float32)}}
    state = NetworkState(params, jax.vmap(problem.optimizer.init)(params))
    run = functools.partial(
        train_steps, problem, state, ReplicaLayout(1), start=0, stop=4, segment=4
    )
    run(measured=np.array([0, 4]), directory=tmp_path)
    with pytest.raises(InputError, match="of other steps than this run's"):
        run(measured=np.array([2, 4]), directory=tmp_path)
