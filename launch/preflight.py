r"""Compiles a configuration for a machine that is not there: does it fit, how long would it take?

Examples:
    python -m launch.preflight --config=configs/quickstart.py --topology=v5e:2x2
    python -m launch.preflight --config=configs/lsa/fig4_cifar10_photographs.py --topology=h100:4 \
        --data_dir=data --json=preflight.json
    python -m launch.preflight --config=configs/lsa/fig6_mnist.py:small --topology=cpu

It needs no accelerator: for TPUs the extra preflight-tpu, for GPUs preflight-gpu, for `cpu` none.
The sweep is run without computing anything, on data of --data_dir or on zeros of the published
shapes, and each of its programs is compiled for --topology. A line each: calls, peak memory on a
device, operations and bytes of a call, the least time by the roofline and its bound, the precision
of products, exchanges between devices. JAX uses three quarters of a GPU's memory, or the share in
XLA_CLIENT_MEM_FRACTION. Then the host's work, and the likely time of an epoch, a run and the sweep
at a share of the roofline's rate: --efficiency, which is assumed, or with --calibrate=FILE the
share that programs reached on such a machine (launch.benchmark or launch.doctor --json=FILE). A
CPU's rates are measured by launch.doctor on it. Exit status: 0, it fits; 1, it does not; 2, a
mistake in the input.
"""

import os
import sys
from pathlib import Path

from absl import flags

from launch import _cli
from lsa_jax import user_files
from lsa_jax.errors import InputError

_cli.declare("config", "data_dir")

_TOPOLOGY = flags.DEFINE_string("topology", None, "Machine, such as v5e:2x2, h100:4 or cpu.")
_JSON = _cli.define_path("json", None, "File to write everything to.")
_EFFICIENCY = flags.DEFINE_float(
    "efficiency", 0.4, "Share of the roofline's rate that is reached.", 1e-3, 1.0
)
_CALIBRATE = _cli.define_path(
    "calibrate", None, "File of launch.benchmark or launch.doctor --json on such a machine."
)

# Keeps the compilers from looking for a device, its driver or its libraries.
_WITHOUT_DEVICES = {
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def main() -> int:
    """Compiles, prints a table, and returns the exit status."""
    topology = _cli.required(_TOPOLOGY, "--topology=v5e:2x2")
    file = user_files.output_file("json", _JSON.value)
    config, points = _cli.configured_points(sweep=True)
    data_dir = _cli.data_dir()

    # Only now: these imports take seconds, and mistakes should not.
    os.environ.update(_WITHOUT_DEVICES | os.environ | {"JAX_PLATFORMS": "cpu"})
    from lsa_jax.preflight import machines

    machine = machines.parse(topology)
    machines.check_compiler(machine)
    simulated = f"--xla_force_host_platform_device_count={machine.count}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {simulated}".strip()
    from lsa_jax import backend
    from lsa_jax.preflight import dry_run, programs
    from lsa_jax.reporting import files
    from lsa_jax.sweep.experiment import load_experiment

    def show_group(done: int, total: int) -> None:
        print(f"looking for programs: group {done + 1} of {total} that differ", file=sys.stderr)

    def show_program(done: int, name: str) -> None:
        print(f"compiling {done + 1}: {name}", file=sys.stderr)

    chip, shares = machine.chip, programs.assumed(_EFFICIENCY.value)
    if _CALIBRATE.value:
        chip, shares = programs.calibrated(Path(_CALIBRATE.value), chip, _EFFICIENCY.value)
    devices = machines.compile_devices(machine)
    with backend.built_for(chip.platform, machine.memory, machine.count, devices[0]):
        noted = dry_run.run(load_experiment(config.experiment), points, data_dir, show_group)
        compiled = programs.compile_programs(noted, devices, chip, shares, show_program)
    if not compiled:
        raise InputError(
            f"--config is {_cli.config_name()!r}, which compiles nothing for a device: all is "
            "computed on the host; accepted: a configuration that trains or has kernels"
        )
    solved = {one.name: calls for one, calls in noted if isinstance(one, dry_run.Solve)}
    result = programs.Result(machine, compiled, solved, shares, len(points))
    if file is not None:
        files.write_json(file, result.as_json())
    print(result.as_text())
    return 0 if result.fits else 1


if __name__ == "__main__":
    _cli.run(main, configured=True)
