"""A sweep that takes a second, and a kill after some processor time, for tests of drills.

A tiny experiment takes the place of the real ones: two groups of two points, each of which trains
a network with checkpoints and then computes a kernel in a file.
"""

import os
import signal
import time
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
import pandas as pd

from lsa_jax import kernels, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.models.model import Model
from lsa_jax.reporting.report import Report, Row
from lsa_jax.sweep import run as runner
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome
from lsa_jax.sweep.fields import product
from lsa_jax.sweep.points import make_points

EPOCHS = 4


def _init(key, input_shape):
    return {"w": jax.random.normal(key, (*input_shape, 200)), "v": jnp.zeros((200, 2))}


def _apply(params, inputs):
    return jnp.tanh(inputs @ params["w"]) @ params["v"]


def _kernel(x1, x2):
    return jnp.tanh(x1 @ x2.T)


def _load(points, data_dir):
    return np.random.default_rng(0).normal(size=(48, 5)).astype(np.float32)


def _run(group, data, directory, progress):
    _, history = training.train(
        jnp.stack([jax.random.key(point.config.seed) for point in group]),
        Model(_init, _apply, None),
        Dataset(jnp.asarray(data), jnp.asarray(data[:, :2])),
        training.LOSSES["squared_error"],
        optax.adam(group[0].config.rate),
        epochs=EPOCHS,
        batch_size=16,
        evaluation=training.Evaluation(metrics={}),
        checkpoints=training.Checkpoints(directory / "network"),
        progress=lambda fraction: progress(fraction / 2),
    )
    matrix = kernels.gram(
        _kernel,
        data,
        tile=8,
        path=directory / SCRATCH / "kernel.npy",
        workers=kernels.Workers(jax.devices()[:1]),
        progress=lambda fraction: progress(0.5 + fraction / 2),
    )
    kernel = float(np.sum(matrix, dtype=np.float64))
    return [
        Outcome(
            {"loss": float(history.rows[-1]["train_loss"][replica]), "kernel": kernel},
            [{"epoch": row["epoch"], "loss": row["train_loss"][replica]} for row in history.rows],
        )
        for replica in range(len(group))
    ]


def _report(config, runs, workdir):
    mean = float(runs.finished["loss"].mean())
    return Report("A drill", claims=[Row("loss", 0.0, mean, None, "shown")])


EXPERIMENT = Experiment(_run, _report, _load, varying=("seed",))


def sweep(workdir, *, stop=lambda fraction: None):
    """Runs the sweep; `stop` is told how far each group is."""

    def run(group, data, directory, progress):
        return _run(group, data, directory, stop)

    config = ml_collections.ConfigDict({"experiment": "drill", "rate": 0.1, "seed": 0})
    points = make_points(config, product({"rate": (0.1, 0.01), "seed": (0, 1)}), lambda c: None)
    experiment = EXPERIMENT._replace(run=run)
    with mock.patch.object(runner, "load_experiment", lambda name: experiment):
        return runner.run_sweep(config, points, workdir, data_dir=None, command=["drill"])


def content(workdir):
    """Returns the files of a sweep, without times."""
    results = pd.read_csv(workdir / "results.csv", dtype=str).drop(columns="seconds")
    reports = {name: (workdir / name).read_bytes() for name in ("report.json", "report.md")}
    metrics = {
        path.relative_to(workdir).as_posix(): path.read_bytes()
        for path in workdir.glob("runs/*/metrics.jsonl")
    }
    return {"results.csv": results.to_dict("list"), **reports, **metrics}


def processor_seconds(pid):
    """Returns the processor time of a process and its children.

    By this, moments mean the same on any machine.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has ended, and its time is now counted with its parent's
    used = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return used + sum(processor_seconds(int(child)) for child in children)


def kill_after(pid, seconds):
    """Kills a process once it has used the processor so long; False where it ended before."""
    while processor_seconds(pid) < seconds:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return False
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    return True
