"""Machines by name, such as v5e:2x2 or h100:4, and devices to compile for."""

import importlib.util
import math
import os
import re
import subprocess
import sys
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from lsa_jax.costs import CHIPS, Chip
from lsa_jax.errors import InputError


class Machine(NamedTuple):
    """Several devices of one kind; its name is the value of --topology."""

    name: str
    chip: Chip
    count: int
    memory: float | None  # bytes of a device for JAX: a share of a GPU's; None on a CPU


# XLA's description of a GPU: cores, clock in GHz, bytes of the second cache, of a core's and of a
# block's shared memory, compute capability, units a core.
_GPU_FORMS = {
    "a100": (108, 1.41, 41_943_040, 167_936, 166_912, (8, 0), 64),
    "h100": (132, 1.98, 52_428_800, 233_472, 232_448, (9, 0), 128),
}

# The share of a GPU's memory that JAX takes, and the environment's other value.
_SHARE_OF_MEMORY = 0.75
SHARE_VARIABLE = "XLA_CLIENT_MEM_FRACTION"
_OLD_SHARE_VARIABLE = "XLA_PYTHON_CLIENT_MEM_FRACTION"

_EXAMPLES = "cpu, cpu:4, h100:4, a100:8, v5e:2x2, v4:2x2x1, v5p:2x2x1 or v6e:2x2"


def parse(name: str) -> Machine:
    """Returns the machine of this name, without importing its compiler.

    Raises:
        InputError: there is no such machine, or the environment has no share of a GPU's memory.
    """
    kind, _, mesh = name.partition(":")
    chip = CHIPS.get(kind)
    is_mesh = re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", mesh) is not None
    if chip is None or (mesh and not is_mesh) or (chip.platform == "tpu" and "x" not in mesh):
        raise InputError(f"--topology is {name!r}; accepted: a machine such as {_EXAMPLES}")
    if chip.platform != "tpu" and "x" in mesh:
        raise InputError(f"--topology is {name!r}; accepted: {kind}:COUNT")
    count = math.prod(map(int, mesh.split("x"))) if mesh else 1
    memory = chip.memory
    if chip.platform == "gpu" and memory is not None:
        memory *= _share_of_memory()
    return Machine(name, chip, count, memory)


def _share_of_memory() -> float:
    """Returns the share of a GPU's memory that JAX's allocator takes in this environment."""
    for name in (SHARE_VARIABLE, _OLD_SHARE_VARIABLE):
        if given := os.environ.get(name):
            try:
                share = float(given)
            except ValueError:
                share = math.nan
            if not 0 < share <= 1:
                raise InputError(f"{name} is {given!r}; accepted: a number above 0 and at most 1")
            return share
    return _SHARE_OF_MEMORY


# The compilers of a platform, and the command that installs one.
PLUGINS: dict[str, tuple[tuple[str, ...], str]] = {
    "tpu": (("libtpu",), "pip install 'lsa_jax[preflight-tpu]'"),
    "gpu": (("jax_cuda13_plugin", "jax_cuda12_plugin"), "pip install 'lsa_jax[preflight-gpu]'"),
}


def check_compiler(machine: Machine) -> None:
    """Raises InputError where the machine's compiler is missing, or does not know XLA_FLAGS.

    An unknown flag ends the process that compiles first, so a process of its own tries them.
    """
    modules, command = PLUGINS.get(machine.chip.platform, ((), ""))
    if modules and not any(map(importlib.util.find_spec, modules)):
        raise InputError(
            f"--topology is {machine.name!r}, and no compiler for it is installed; accepted: after "
            f"{command}"
        )
    flags = os.environ.get("XLA_FLAGS", "")
    known = "--xla_force_host_platform_device_count="  # to every compiler
    if all(flag.startswith(known) for flag in flags.split()):
        return
    trial = "from lsa_jax.preflight import machines as m; m.compile_little(m.parse({!r}))"
    tried = [sys.executable, "-c", trial.format(machine.name)]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    if unknown := re.search(r"Unknown flags? in XLA_FLAGS: (.*)", done.stderr):
        raise InputError(
            f"XLA_FLAGS is {flags!r}, and the compiler for {machine.name} does not know "
            f"{unknown[1]}; accepted: flags that it knows, or none"
        )


def compile_little(machine: Machine) -> None:
    """Compiles a sum for a machine, so that its compiler reads XLA_FLAGS."""
    device = compile_devices(machine)[0]
    number = jax.ShapeDtypeStruct((), "float32", sharding=SingleDeviceSharding(device))
    jax.jit(lambda x: x + 1).lower(number).compile()


def compile_devices(machine: Machine) -> list[Any]:
    """Returns devices to compile for.

    Raises:
        InputError: the compiler knows no such machine.
    """
    platform = machine.chip.platform
    if platform == "cpu":
        return jax.devices("cpu")[: machine.count]
    if platform == "gpu":
        form = _gpu_form(machine.name.partition(":")[0], machine.chip)
        asked = {"platform": "cuda", "topology_name": "", "target_config": form}
        asked["topology"] = f"1x1x{machine.count}"
    else:
        asked = {"platform": "tpu", "topology_name": machine.name}
        if machine.count == 1:
            asked["chips_per_host_bounds"] = (1, 1, 1)
    try:
        return list(topologies.get_topology_desc(**asked).devices)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"--topology is {machine.name!r}, which its compiler refuses: "
            f"{str(error).splitlines()[0]}; accepted: a machine such as {_EXAMPLES}"
        ) from None


def _gpu_form(name: str, chip: Chip) -> str:
    """Returns a GPU in the text format of XLA."""
    cores, clock, cache, shared, block, (major, minor), units = _GPU_FORMS[name]
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {shared}
  threads_per_core_limit: 2048
  core_count: {cores}
  fpus_per_core: {units}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {int(chip.bandwidth or 0)}
  l2_cache_size: {cache}
  clock_rate_ghz: {clock}
  device_memory_size: {int(chip.memory or 0)}
  shared_memory_per_block_optin: {block}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{chip.kind}"
"""
