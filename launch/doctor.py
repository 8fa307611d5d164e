r"""Checks a machine that is new to you: what works here, how fast, and what to do about the rest.

Examples:
    python -m launch.doctor
    python -m launch.doctor --workdir=/scratch/me --json=doctor.json

A line each, green or red: versions, devices, precision of products against float64, an infinite and
a finite kernel against closed forms, training, checkpoints and locks on the file system of
--workdir (by default the current folder), rates of a device and the share of them that an epoch and
a kernel reach. A red line is followed by what to do. --json keeps everything; with it
launch.preflight --calibrate=doctor.json estimates times on this machine. It takes one to two
minutes on a CPU. Exit status: 0, all green; 1, something red; 2, a mistake in the input.
"""

import sys
import tempfile
from pathlib import Path

from launch import _cli
from lsa_jax import user_files

_cli.declare("workdir")

_JSON = _cli.define_path("json", None, "File to write everything to.")


def main() -> int:
    """Examines the machine, prints a line a check, and returns the exit status."""
    file = user_files.output_file("json", _JSON.value)
    place = Path(_cli.WORKDIR.value or ".")
    place.mkdir(parents=True, exist_ok=True)

    # Only now: these imports take seconds, and mistakes should not.
    from lsa_jax.preflight import doctor
    from lsa_jax.reporting import files

    findings = []
    with tempfile.TemporaryDirectory(prefix=".doctor_", dir=place) as folder:
        for finding in doctor.examine(doctor.CHECKS, Path(folder)):
            print(doctor.as_text(finding, color=sys.stdout.isatty()), flush=True)
            findings.append(finding)
    red = [finding.name for finding in findings if not finding.good]
    print(f"red: {', '.join(red)}" if red else "all green")
    if file is not None:
        numbers = findings[-1].numbers
        calibration = {name: numbers.get(name) for name in ("chip", "calibration")}
        files.write_json(file, {"checks": [f._asdict() for f in findings], **calibration})
    return int(bool(red))


if __name__ == "__main__":
    _cli.run(main)
