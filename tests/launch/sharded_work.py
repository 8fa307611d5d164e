"""What every process of the drill in test_distributed.py runs: a sharded matrix, solved.

Each process has a folder of its own, as on hosts that share no file system.
"""

import json
import resource
import time

import jax
import numpy as np
from absl import flags

from launch import _cli, _distributed
from lsa_jax import models, processes
from lsa_jax.kernels import gram, regress_cg
from lsa_jax.kernels.solve import conjugate_gradients

_NUM = flags.DEFINE_integer("num", 400, "Training examples.")
_PAUSE = flags.DEFINE_float("pause", 0.0, "Seconds that the first process waits in an iteration.")


def main() -> None:
    """Computes, solves, and says what this process took."""
    conjugate_gradients._SAVE_EVERY = -1.0  # each iteration
    with _distributed.joined():
        group, folder = processes.everyone(), _cli.workdir()
        folder.mkdir(parents=True, exist_ok=True)
        layers = [models.Conv(8), models.Relu(), models.Flatten(), models.Dense(2)]
        model, draw = models.network(layers), np.random.default_rng(0).normal
        x = draw(size=(_NUM.value + 100, 12, 12, 1)).astype(np.float32)
        train, test = np.split(x, [_NUM.value])
        targets = np.tanh(train.reshape(len(train), -1)[:, :2])
        start = time.monotonic()
        half = gram(
            model.kernel, train, tile=40, path=folder / "train.npy", packed=True, sharded=True
        )
        rows = gram(model.kernel, test, train, path=folder / "test.npy", tile=40, sharded=True)
        matrix_seconds, start = time.monotonic() - start, time.monotonic()
        fit = regress_cg(
            half,
            targets,
            rows,
            ridge=0.01,
            tolerance=1e-10,
            rank=20,
            checkpoint=folder / "state.npz",
            progress=lambda *_: time.sleep(_PAUSE.value),
        )
        found = {
            "process": group.index,
            "devices": len(jax.local_devices()),
            "matrix_seconds": matrix_seconds,
            "solve_seconds": time.monotonic() - start,
            "iterations": fit.iterations,
            "residual": fit.residual,
            "kept_bytes": half.nbytes + rows.nbytes,
            "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
        (folder / "found.json").write_text(json.dumps(found))
        np.savez(folder / "found.npz", predictions=fit.predictions, weights=fit.weights)


if __name__ == "__main__":
    _cli.run(main)
