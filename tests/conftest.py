"""What every test runs under: 8 simulated devices, cheap compilation, no rank promotion."""

import os
import tempfile
from importlib.metadata import version

# Before jax is imported: devices are counted once. Programs of tests are small, so compiling them
# costs more than running them: optimise little, and compile once what several tests, the two
# workers and the commands that they start have in common.
_FLAGS = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
if version("jaxlib").startswith("0.10."):
    # Without the emitters that build each fusion through MLIR compiling takes half of the time.
    # Later versions have no such choice, and refuse the flag.
    _FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAGS}".strip()
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _compiled = tempfile.TemporaryDirectory(prefix="lsa_jax_compiled_")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(0)
