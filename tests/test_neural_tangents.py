"""neural-tangents imports quietly, leaves jax unchanged, and computes the right numbers."""

import runpy
import subprocess
import sys

import jax
import numpy as np
import pytest
import scipy.linalg

from lsa_jax import _neural_tangents
from lsa_jax._neural_tangents import (
    predict,
    stax,
)

# One hidden layer: the mean over initialisations equals the infinite-width kernel at any width.
NETWORKS = {
    "relu": stax.serial(stax.Dense(32, 1.3, 0.2), stax.Relu(), stax.Dense(2, 1.1, 0.3)),
    "convolution": stax.serial(
        stax.Conv(32, (3, 3), (2, 2), padding="VALID", W_std=1.3, b_std=0.2),
        stax.Relu(),
        stax.Flatten(),
        stax.Dense(2, 1.1, 0.3),
    ),
    "pooled": stax.serial(
        stax.Conv(32, (3, 3), padding="SAME", W_std=1.3, b_std=0.2),
        stax.Erf(),
        stax.GlobalAvgPool(),
        stax.Dense(2, 1.1, 0.3),
    ),
}


def _inputs(key, name, n=4):
    shape = (n, 3) if name == "relu" else (n, 5, 5, 2)
    return jax.random.normal(jax.random.fold_in(key, n), shape)


IMPORT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "tf2jax"):
            raise AssertionError(f"{name} is being imported")

sys.meta_path.insert(0, Refuse())
import jax.extend.core
import jax.interpreters.ad
modules = (jax, jax.core, jax.extend.core, jax.interpreters.ad)
before = [dict(vars(module)) for module in modules]
import lsa_jax._neural_tangents
after = [{name: vars(module)[name] for name in old} for module, old in zip(modules, before)]
assert before == after
assert not {"Var", "Jaxpr", "Primitive"} & vars(jax.core).keys()
assert "zeros_like_p" not in vars(jax.interpreters.ad) and "jax.util" not in sys.modules
"""


def test_importing_prints_nothing_warns_nothing_and_loads_no_tensorflow():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_only_versions_of_jax_that_were_tested_are_accepted(monkeypatch):
    for version in ("0.10.0", "0.11.2", "0.12.1.dev20260801"):
        _neural_tangents._check_jax_version(version)
    for version in ("0.9.2", "0.13.0", "1.0.0"):
        monkeypatch.setattr(jax, "__version__", version)
        with pytest.raises(
            ImportError, match=f"jax {version} is installed; .*need jax>=0.10,<0.13"
        ):
            runpy.run_path(_neural_tangents.__file__)


@pytest.fixture
def regression(key):
    """A kernel, targets, outputs before training, and the kernel of two test examples."""
    kernel = jax.jit(lambda x: NETWORKS["relu"][2](x, None, "ntk"))(_inputs(key, "relu", n=7))
    targets, start = jax.random.normal(key, (5, 2)), jax.random.normal(jax.random.key(1), (7, 2))
    return kernel[:5, :5], targets, start[:5], start[5:], kernel[5:, :5]


def _flow(time, kernel, targets, train, test, kernel_test):
    """Gradient flow on sum (f - y)^2 / 2nc: df/dt = -K (f - y) / nc, by the matrix exponential."""
    kernel, targets, train, test, kernel_test = (
        np.asarray(a, float) for a in (kernel, targets, train, test, kernel_test)
    )
    decay = scipy.linalg.expm(-time * kernel / targets.size)
    moved = np.linalg.solve(kernel, (np.eye(len(kernel)) - decay) @ (targets - train))
    return targets + decay @ (train - targets), test + kernel_test @ moved


def test_predictions_can_be_traced_with_their_kernel(regression):
    @jax.jit
    def traced(time, kernel, targets, *rest):
        return predict.gradient_descent_mse(kernel, targets)(time, *rest)

    for ours, exact in zip(traced(3.0, *regression), _flow(3.0, *regression), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-3)
