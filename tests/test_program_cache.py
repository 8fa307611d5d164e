"""Compiled programs are kept on disk, and computed numbers stay the same bits."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import json, sys
from lsa_jax import program_cache
program_cache.keep_programs()
import jax, jax.numpy as jnp
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name.endswith("cache_hits")))
x = jnp.linspace(0.0, 1.0, 600).reshape(20, 30)
found = jax.jit(lambda x: jnp.linalg.svd(x @ x.T)[1])(x)
print(sum(hits), found.tobytes().hex())
"""


def _run(home, **variables):
    """Returns the number of programs taken from disk, and the bits of a result."""
    kept = {k: v for k, v in os.environ.items() if k not in variables and "CACHE" not in k}
    command = [sys.executable, "-c", _PROGRAM]
    environment = kept | {"HOME": str(home), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment |= {name: value for name, value in variables.items() if value is not None}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_second_process_takes_programs_from_the_users_cache(tmp_path):
    (hits, first), (again, second) = (_run(tmp_path) for _ in range(2))
    assert (hits, first) == ("0", second) and int(again) > 0
    assert list((tmp_path / ".cache" / "lsa_jax" / "programs").glob("*/*"))


@pytest.mark.parametrize("chosen", ["kept", None])
def test_users_choose_the_folder_and_without_a_home_there_is_none(tmp_path, chosen):
    home = tmp_path / "missing"
    variables = {} if chosen is None else {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / chosen)}
    assert _run(home, **variables)[0] == "0"
    assert (tmp_path / "kept").exists() == (chosen is not None)
    assert not home.exists()
