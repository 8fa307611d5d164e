"""neural-tangents imports quietly, leaves jax unchanged, and can be traced."""

import runpy
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from lsa_jax import _neural_tangents
from lsa_jax._neural_tangents import predict

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


def test_predictions_can_be_traced_with_their_kernel():
    """Gradient flow on sum (f - y)^2 / 2nc: df/dt = -K (f - y) / nc, by the matrix exponential."""
    rng, time = np.random.default_rng(0), 3.0
    factors = rng.normal(size=(7, 9))
    kernel, kernel_test = np.split(factors @ factors[:5].T, [5])
    targets, train, test = (rng.normal(size=(n, 2)) for n in (5, 5, 2))

    @jax.jit
    def traced(time, kernel, targets, *rest):
        return predict.gradient_descent_mse(kernel, targets)(time, *rest)

    given = map(jnp.float32, (kernel, targets, train, test, kernel_test))
    found_train, found_test = traced(time, *given)
    decay = scipy.linalg.expm(-time * kernel / targets.size)
    moved = np.linalg.solve(kernel, (np.eye(5) - decay) @ (targets - train))
    expected = targets + decay @ (train - targets)
    np.testing.assert_allclose(found_train, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found_test, test + kernel_test @ moved, rtol=1e-3, atol=1e-3)
