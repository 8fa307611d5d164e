r"""Compiles a configuration for a machine that is not there: does it fit, how long would it take?

Examples:
    python -m launch.preflight --config=configs/quickstart.py --topology=v5e:2x2
    python -m launch.preflight --config=configs/lsa/fig4_cifar10_photographs.py --topology=h100:4 \
        --data_dir=data --json=preflight.json
    python -m launch.preflight --config=configs/lsa/fig6_mnist.py:small --topology=cpu

It needs no accelerator: for TPUs the extra preflight-tpu, for GPUs preflight-gpu, for `cpu` none.
The sweep is run without computing anything: with --data_dir data are read as it reads them, without
it zeros of the published shapes stand in; every program that it would compile for a device is
compiled for --topology. A line each: how often it runs, its peak memory on a device, operations and
bytes of a call, the least time by the roofline and what bounds it, the precision of its products,
exchanges between devices. Of a GPU's memory JAX uses three quarters, unless XLA_CLIENT_MEM_FRACTION
has another share. What is solved on the host is said to be. Then what an epoch, a run and the sweep
take at a share of the roofline's rate: --efficiency, which is assumed, or with --calibrate=FILE
what a benchmark reached on such a machine (launch.benchmark --json=FILE). Exit status: 0, it fits;
1, it does not; 2, a mistake in what was given.
"""

import os
import sys
from pathlib import Path

from absl import flags

from launch import _cli
from lsa_jax.errors import InputError

_cli.declare("config", "data_dir")

_TOPOLOGY = flags.DEFINE_string("topology", None, "Machine, such as v5e:2x2, h100:4 or cpu.")
_JSON = _cli.define_path("json", None, "File to write everything to.")
_EFFICIENCY = flags.DEFINE_float(
    "efficiency", 0.4, "Share of the roofline's rate that is reached.", 1e-3, 1.0
)
_CALIBRATE = _cli.define_path(
    "calibrate", None, "File of launch.benchmark --json on such a machine: shares measured there."
)

# The compilers are not to ask for a device, its driver or its libraries.
_WITHOUT_DEVICES = {
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def _set_up_compilers() -> None:
    """Has the compilers look for no accelerator; before JAX is imported."""
    os.environ.update({name: os.environ.get(name, v) for name, v in _WITHOUT_DEVICES.items()})
    os.environ["JAX_PLATFORMS"] = "cpu"


def _simulate_devices(count: int) -> None:
    """Has JAX see so many CPU devices; before it is first used."""
    devices = f"--xla_force_host_platform_device_count={count}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {devices}".strip()


def _check_topology() -> str:
    if not _TOPOLOGY.value:
        raise InputError("--topology is missing; accepted: --topology=v5e:2x2")
    return _TOPOLOGY.value


def _say_group(done: int, total: int) -> None:
    print(f"looking for programs: group {done + 1} of {total} that differ", file=sys.stderr)


def main() -> int:
    """Compiles, prints a table, and returns the exit status."""
    name = _check_topology()
    file = _cli.output_file("json", _JSON.value)
    config, points = _cli.configured_points(sweep=True)
    data_dir = _cli.data_dir()

    # Only now: these imports take seconds, and mistakes should not.
    _set_up_compilers()
    from lsa_jax.preflight import machines

    machine = machines.parse(name)
    machines.check_plugin(machine)
    machines.check_flags(machine)
    _simulate_devices(machine.count)
    from lsa_jax import backend
    from lsa_jax.preflight import calibration, compiled, dry_run, report
    from lsa_jax.reporting import files
    from lsa_jax.sweep.registry import load_experiment

    chip, shares = machine.chip, calibration.assumed(_EFFICIENCY.value)
    if _CALIBRATE.value:
        shares = calibration.measured(Path(_CALIBRATE.value), chip, _EFFICIENCY.value)
    devices = machines.compile_devices(machine)
    with backend.built_for(chip.platform, machine.memory, machine.count, devices[0]):
        experiment = load_experiment(config.experiment)
        noted = dry_run.run(experiment, points, data_dir, _say_group)
        found, solved = report.split_solves(noted)
        if not found:
            raise InputError(
                f"--config is {_cli.CONFIG.value!r}, which compiles nothing for a device: all is "
                "computed on the host; accepted: a configuration that trains or has kernels"
            )

        def say(done: int, name: str) -> None:
            print(f"compiling {done + 1} of {len(found)}: {name}", file=sys.stderr)

        programs = compiled.compile_programs(found, devices, chip, say)
    if file is not None:
        files.write_json(file, report.as_json(machine, programs, solved, shares, len(points)))
    print(report.as_text(machine, programs, solved, shares, len(points)))
    return 0 if all(report.fits(program, machine) for program in programs) else 1


if __name__ == "__main__":
    _cli.run(main, configured=True)
