"""The work of every process of test_distributed.py, of each kind that processes share.

Each process is given a folder of its own, so that it shows who writes.
"""

import contextlib
import functools
from unittest import mock

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
from jax.experimental import multihost_utils

from launch import _cli, _distributed
from lsa_jax import processes, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.kernels import gram, regress_cg
from lsa_jax.models.model import Model
from lsa_jax.parallel import BatchLayout, ReplicaLayout
from lsa_jax.reporting.report import Report
from lsa_jax.sweep import run
from lsa_jax.sweep.experiment import Experiment, Outcome
from lsa_jax.sweep.points import make_points
from lsa_jax.training import checkpoints
from lsa_jax.training.losses import squared_error

X1, X2 = (np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32) for n in (22, 9))


class _Stopped(Exception):
    pass


def _stop(fraction):
    if fraction >= 0.4:
        raise _Stopped


def train_with_split_batches(folder):
    """Trains one linear model, its batches spread over all devices, in two calls."""
    model = Model(
        lambda key, shape: {"w": jax.random.normal(key, (*shape, 2))},
        lambda params, x: x @ params["w"],
        None,
    )
    train = functools.partial(
        training.train,
        jax.random.key(0),
        model,
        Dataset(jnp.asarray(X1), jnp.tanh(jnp.asarray(X1[:, :2]))),
        squared_error,
        optax.sgd(0.1, momentum=0.9),
        epochs=2,
        batch_size=8,
        evaluation=training.Evaluation(metrics={}),
        layout=BatchLayout(8),
        checkpoints=training.Checkpoints(folder / "checkpoints"),
    )
    with contextlib.suppress(_Stopped):
        train(progress=_stop)
    return train()[0]["w"]


def _walk(group, data, directory, progress):
    """Takes two random steps, the points as replicas, with a checkpoint after each."""

    def step(position, key, count):
        return position + jax.random.normal(jax.random.fold_in(key, count), position.shape)

    layout, done = ReplicaLayout(len(group)), 0
    keys = layout.spread(jax.random.split(jax.random.key(1), len(group)))
    positions = np.zeros((len(group), 5), np.float32)
    if saved := checkpoints.restore(directory, positions):
        done, positions = saved
    for count in range(done, 2):
        shared = layout.share(jnp.int32(count))
        positions = layout.gather(layout.map(step, 2)(layout.spread(positions), keys, shared))
        checkpoints.save(directory, count + 1, positions)
        progress((count + 1) / 2)
    return [Outcome({"place": float(row.sum())}, []) for row in positions]


def sweep(folder, first=0):
    """Runs a sweep of points from a first seed to 2 and writes its report."""
    experiment = Experiment(run=_walk, report=lambda *_: Report("Walks"), varying=("seed",))
    config = ml_collections.ConfigDict({"experiment": "walk", "seed": 0})
    points = make_points(config, [{"seed": n} for n in range(first, 3)], lambda config: None)
    with mock.patch.object(run, "load_experiment", lambda name: experiment):
        results = run.run_sweep(config, points, folder / "sweep", data_dir=None, command=[])
    assert (results["status"] == "ok").all()
    return results["place"].to_numpy()


def sweep_of_others(folder):
    """Starts a sweep that differs from process to process; returns the refusal."""
    try:
        sweep(folder / "others", processes.everyone().index)
    except InputError as error:
        return str(error)
    return "accepted"


def _kernel(x1, x2):
    return jnp.tanh(x1 @ x2.T)


def compute_gram(folder):
    fractions = []
    options = {"tile": 4, "path": folder / "kernel.npy"}
    with contextlib.suppress(_Stopped):
        gram(_kernel, X1, progress=_stop, **options)
    matrix = gram(_kernel, X1, progress=fractions.append, **options)
    counted = np.array([len(fractions), fractions[-1]])
    return {"memory": gram(_kernel, X2, X1), "stored": np.array(matrix), "counted": counted}


def _positive(x1, x2):
    return jnp.exp(x1 @ x2.T / 4)


def solve_in_shards():
    options = {"tile": 4, "sharded": True}
    half = gram(_positive, X1, packed=True, **options)
    fit = regress_cg(half, X1[:, :2], gram(_positive, X2, X1, **options), ridge=0.1, rank=3)
    return {"solved": fit.predictions, "share": np.array(half.nbytes)}


def gather_from_devices():
    layout, sizes = ReplicaLayout(11), [0]
    place = layout.spread(np.arange(11, dtype=np.float32))
    found = layout.map(lambda x: {"place": x, "odd": x % 2 == 1, "byte": x.astype(jnp.int8)}, 1)
    through_host = multihost_utils.process_allgather

    def watched(array):
        sizes.append(array.nbytes)
        return through_host(array)

    with mock.patch.object(multihost_utils, "process_allgather", watched):
        replicas = layout.gather(found(place))
        matrix = gram(_kernel, X1, tile=4)
    assert replicas["odd"].dtype == bool and replicas["byte"].dtype == np.int8
    return {"through_host": max(sizes), "symmetric": matrix, **replicas}


def work(folder):
    gathered = processes.everyone().gather({"double": np.float64([0.1]), "flag": np.array([True])})
    assert gathered["double"].dtype == np.float64 and gathered["flag"].all()
    return {
        **gather_from_devices(),
        "batches": train_with_split_batches(folder),
        "sweep": sweep(folder),
        **compute_gram(folder),
        **solve_in_shards(),
    }


def main():
    with _distributed.joined() as is_first:
        group, folder = processes.everyone(), _cli.workdir()
        found = work(folder) | {"others": sweep_of_others(folder)}

        def fail():
            if group.index == 1:
                raise InputError("no such data")

        try:
            group.in_each(fail)
        except InputError as error:
            found["error"] = f"{type(error).__name__} {error}"
        np.savez(folder.parent / f"found_{group.index}.npz", **found)
        if is_first:
            print("done")
        fail()
        group.gather(np.zeros(1))


if __name__ == "__main__":
    _cli.run(main)
