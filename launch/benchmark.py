"""Times this package against others that compute the same, on this machine.

Examples:
    python -m launch.benchmark --suite=kernels
    python -m launch.benchmark --suite=kernels --quick --json=kernels.json
    python -m launch.benchmark --suite=stability
    python -m launch.benchmark --suite=agreement
    python -m launch.benchmark --suite=training --json=training.json
    python -m launch.benchmark --suite=kernels --history=benchmarks/history.csv
    python -m launch.benchmark --list

Both run by turns in one process; a line gives the rates and their ratio, the largest relative
difference of the results, and the memory of each. Works whose peer is not installed are skipped;
the extra `peers` brings PyTorch and nngeometry. --json also has the device, and the operations and
bytes of the work, from which launch.preflight --calibrate computes the share of the roofline's
rate. --history adds the rows to a table, with machine and versions, and draws their ratios of
processor times next to it; a ratio a tenth below the last one of the same machine is printed as
slower, with exit status 1.
On a CPU every core is a device, unless XLA_FLAGS sets a number of devices; programs on one
device use the other cores where XLA can.
"""

import importlib
import os

from absl import flags

from benchmarks.works import WORKS
from launch import _cli
from lsa_jax import user_files
from lsa_jax.errors import InputError

_SUITES = tuple(WORKS)
_SUITE = flags.DEFINE_enum("suite", None, _SUITES, "Works to time.")
_JSON = _cli.define_path("json", None, "File to write the rows to, as a list of objects.")
_HISTORY = _cli.define_path(
    "history", None, "CSV file for the rows; a figure is written next to it."
)
_QUICK = flags.DEFINE_bool("quick", False, "Tiny sizes, to see that everything runs.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Turns of each.", lower_bound=1)
_ONLY = flags.DEFINE_string("only", None, "Only works whose name holds this.")
_LIST = flags.DEFINE_bool("list", False, "Print the suite's works, or all suites', and end.")


def main() -> int:
    """Measures, prints a line for each, and writes --json; returns 1 where a work became slower."""
    if _LIST.value:
        for suite in [_SUITE.value] if _SUITE.value else _SUITES:
            print(*(f"--suite={suite} --only={work!r}" for work in WORKS[suite]), sep="\n")
        return 0
    _cli.required(_SUITE, f"one of {', '.join(_SUITES)}")
    if _ONLY.value is not None and not any(_ONLY.value in work for work in WORKS[_SUITE.value]):
        raise InputError(
            f"--only is {_ONLY.value!r}, which is part of no work's name; accepted with "
            f"--suite={_SUITE.value}: part of one of {', '.join(map(repr, WORKS[_SUITE.value]))}"
        )
    file = user_files.output_file("json", _JSON.value)
    kept = user_files.output_file("history", _HISTORY.value)

    # Only now: these imports take seconds, and mistakes should not.
    _make_cores_devices()
    from benchmarks import history
    from benchmarks.measure import Skipped, measure
    from lsa_jax.preflight import programs
    from lsa_jax.reporting import files

    suite = importlib.import_module(f"benchmarks.{_SUITE.value}")
    rows, slower = [], []
    for contest in suite.contests(quick=_QUICK.value):
        if _ONLY.value is not None and _ONLY.value not in contest.work:
            continue
        if isinstance(contest, Skipped):
            print(f"{contest.work}: skipped, as {contest.reason}", flush=True)
        else:
            row = measure(contest, _ROUNDS.value)
            rows.append(row | programs.described(contest.traced))
            _print(rows[-1])
            if file is not None:
                files.write_json(file, rows)
            if kept is not None and (warning := history.append(kept, _SUITE.value, rows[-1])):
                slower.append(warning)
                print(warning, flush=True)
    if kept is not None:
        figure = history.draw(history.read(kept))
        figure.savefig(kept.with_suffix(".png"), dpi=120)
    return int(bool(slower))


def _make_cores_devices() -> None:
    """Makes each core of a CPU a device, unless XLA_FLAGS has a number of them."""
    import jax

    from lsa_jax.reporting.machine import count_cores

    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        jax.config.update("jax_num_cpu_devices", count_cores())


def _print(row: dict) -> None:
    memory = " / ".join(
        "?" if row[name] is None else f"{row[name]:.0f}"
        for name in ("ours_peak_mb", "peer_peak_mb")
    )
    print(
        f"{row['work']}, {row['size']}: {row['ours_per_s']:.3g} per s, {row['peer']} "
        f"{row['peer_per_s']:.3g}: ratio {row['ratio']:.2f}, of processor times "
        f"{row['processor_ratio']:.2f}, largest relative difference "
        f"{row['max_rel_diff']:.1e}, peak MB {memory}",
        flush=True,
    )


if __name__ == "__main__":
    _cli.run(main)
