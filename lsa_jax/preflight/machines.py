"""Machines by name, such as v5e:2x2 or h100:4: what their devices have, and devices to compile for.

Rates and sizes are those of the makers' data sheets, dense, of one JAX device.
"""

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

from lsa_jax.errors import InputError


class Chip(NamedTuple):
    """One kind of device.

    Attributes:
        platform: "cpu", "gpu" or "tpu".
        kind: as JAX names it.
        memory: bytes that it has; None on a CPU, which has the host's.
        bandwidth: bytes a second of that memory; None where it is not known.
        flops: operations a second of products, by precision: "bfloat16" (of bfloat16 numbers),
            "default" (of float32 numbers, as JAX multiplies them unless told otherwise: TF32 or
            bfloat16) and "highest" (of float32 numbers in full); and outside products, one a lane
            and cycle ("vector"), where that is known. Empty where none are known.
    """

    platform: str
    kind: str
    memory: float | None
    bandwidth: float | None
    flops: dict[str, float]


class Machine(NamedTuple):
    """Several devices of one kind.

    Attributes:
        name: as it was asked for.
        chip: the kind of its devices.
        count: how many.
        mesh: how a TPU's chips are connected, such as "2x2"; empty for others.
        memory: bytes of a device that JAX may use: of a GPU's the share that its allocator takes;
            None on a CPU.
    """

    name: str
    chip: Chip
    count: int
    mesh: str
    memory: float | None


_FOUR_SMALL_UNITS = ("TPU v4", "TPU v5 lite", "TPU v5")


def _tpu(kind: str, memory: float, bandwidth: float, bfloat16: float) -> Chip:
    # Full precision takes six passes of the matrix unit.
    flops = {"bfloat16": bfloat16, "default": bfloat16, "highest": bfloat16 / 6}
    if kind in _FOUR_SMALL_UNITS:  # of 128 x 128 products each, beside 4 x 8 x 128 lanes
        flops["vector"] = bfloat16 * (4 * 8 * 128) / (4 * 2 * 128**2)
    return Chip("tpu", kind, memory, bandwidth, flops)


def _gpu(kind: str, memory: float, bandwidth: float, bfloat16: float, float32: float) -> Chip:
    # A float32 product counts twice, as it multiplies and adds in a cycle.
    flops = {"bfloat16": bfloat16, "default": bfloat16 / 2, "highest": float32}
    flops["vector"] = float32 / 2
    return Chip("gpu", kind, memory, bandwidth, flops)


CHIPS: dict[str, Chip] = {
    "cpu": Chip("cpu", "cpu", None, None, {}),
    "a100": _gpu("NVIDIA A100-SXM4-80GB", 85.1e9, 2039e9, 312e12, 19.5e12),
    "h100": _gpu("NVIDIA H100 80GB HBM3", 84.9e9, 3352e9, 989e12, 66.9e12),
    "v4": _tpu("TPU v4", 34.4e9, 1228e9, 275e12),
    "v5e": _tpu("TPU v5 lite", 16.9e9, 819e9, 197e12),
    "v5p": _tpu("TPU v5", 102e9, 2765e9, 459e12),
    "v6e": _tpu("TPU v6 lite", 33.5e9, 1640e9, 918e12),
}

# What XLA is told of a GPU that is not there: cores, clock in GHz, bytes of the second cache, of a
# core's and of a block's shared memory, compute capability.
_GPU_FORMS = {
    "a100": (108, 1.41, 41_943_040, 167_936, 166_912, (8, 0), 64),
    "h100": (132, 1.98, 52_428_800, 233_472, 232_448, (9, 0), 128),
}

# What JAX takes of a GPU's memory, and what says otherwise.
_SHARE_OF_MEMORY = 0.75
SHARE_VARIABLE = "XLA_CLIENT_MEM_FRACTION"
_OLD_SHARE_VARIABLE = "XLA_PYTHON_CLIENT_MEM_FRACTION"

_EXAMPLES = "cpu, cpu:4, h100:4, a100:8, v5e:2x2, v4:2x2x1, v5p:2x2x1 or v6e:2x2"


def parse(name: str) -> Machine:
    """Returns the machine of this name, without importing what compiles for it.

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
        memory *= share_of_memory()
    return Machine(name, chip, count, mesh if chip.platform == "tpu" else "", memory)


def share_of_memory() -> float:
    """Returns what JAX's allocator takes of a GPU's memory, as the environment has it.

    Raises:
        InputError: it has something else.
    """
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


# What compiles for a platform, and what installs it.
PLUGINS: dict[str, tuple[tuple[str, ...], str]] = {
    "tpu": (("libtpu",), "pip install 'lsa_jax[preflight-tpu]'"),
    "gpu": (("jax_cuda13_plugin", "jax_cuda12_plugin"), "pip install 'lsa_jax[preflight-gpu]'"),
}


def check_plugin(machine: Machine) -> None:
    """Raises InputError where what compiles for the machine is not installed; imports nothing."""
    modules, command = PLUGINS.get(machine.chip.platform, ((), ""))
    if modules and not any(map(importlib.util.find_spec, modules)):
        raise InputError(
            f"--topology is {machine.name!r}, and no compiler for it is installed; accepted: after "
            f"{command}"
        )


# Every compiler knows it.
_DEVICE_COUNT = "--xla_force_host_platform_device_count="

_UNKNOWN_FLAGS = re.compile(r"Unknown flags? in XLA_FLAGS: (.*)")


def check_flags(machine: Machine) -> None:
    """Raises InputError where XLA_FLAGS has what the machine's compiler does not know.

    Such a flag ends the process that compiles first, so that is another one. Without flags there is
    nothing to try.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if all(flag.startswith(_DEVICE_COUNT) for flag in flags.split()):
        return
    trial = "from lsa_jax.preflight import machines as m; m.compile_little(m.parse({!r}))"
    command = [sys.executable, "-c", trial.format(machine.name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    unknown = _UNKNOWN_FLAGS.search(done.stderr)
    if unknown is None:  # whatever else it died of, this process will say
        return
    raise InputError(
        f"XLA_FLAGS is {flags!r}, and the compiler for {machine.name} does not know {unknown[1]}; "
        "accepted: flags that it knows, or none"
    )


def compile_little(machine: Machine) -> None:
    """Compiles a sum for a machine, which has its compiler read XLA_FLAGS."""
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
    name = machine.name.partition(":")[0]
    try:
        if platform == "gpu":
            found = topologies.get_topology_desc(
                platform="cuda",
                topology_name="",
                topology=f"1x1x{machine.count}",
                target_config=_gpu_form(name, machine.chip),
            )
        else:
            single = {"chips_per_host_bounds": (1, 1, 1)} if machine.count == 1 else {}
            found = topologies.get_topology_desc(
                platform="tpu", topology_name=f"{name}:{machine.mesh}", **single
            )
    except (RuntimeError, ValueError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"--topology is {machine.name!r}, which its compiler refuses: {first}; accepted: a "
            f"machine such as {_EXAMPLES}"
        ) from None
    return list(found.devices)


def _gpu_form(name: str, chip: Chip) -> str:
    """Returns a GPU as XLA reads it from text."""
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
