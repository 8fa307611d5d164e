"""launch.list and launch.show print what can be run, and shells complete it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def launch(fork):
    """Runs a launch script to its end."""

    def run(script, *arguments):
        ended = fork(script, *arguments, environment=dict(os.environ))
        return subprocess.CompletedProcess(arguments, *ended.wait())

    return run


@pytest.fixture(scope="module")
def refused(launch):
    """Runs a launch script that refuses what it is given; returns the line that says so."""

    def run(script, *arguments):
        result = launch(script, *arguments)
        assert result.returncode == 2 and not result.stdout
        (line,) = result.stderr.splitlines()
        return line

    return run


def test_a_list_has_item_cost_data_and_status(launch):
    result = launch("list", "--paper=resnet", "--under=1h", "--data=none")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    place = lines.index("configs/resnet/fig3b.py")
    assert lines[place + 1].startswith("  Figure 3 (b), Allen-Zhu and Li 2019: hidden layers")
    size = r"full at least \d+ min \d+ s on 1 core data: none \d+ of 3 shown"
    assert re.match(size, " ".join(lines[place + 2].split()))
    assert ":quick" not in result.stdout
    sizes = [line for line in lines if line.startswith("    ")]
    assert lines[-1].endswith(f"of 10 configurations, in {len(sizes)} sizes")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--under=soon", ["--under is 'soon'", "90s"]),
        ("--data=", ["--data is empty", "none"]),
        ("--data=mnst", ["--data has 'mnst'", "mnist"]),
        ("--paper=none", ["--paper", "lsa"]),
        ("--configs=docs", ["--configs=docs"]),
        ("--gallery=nowhere", ["--gallery=nowhere", "no folder"]),
        ("--completion=tcsh", ["--completion", "bash"]),
    ],
)
def test_a_wish_that_is_not_understood_is_refused(refused, flag, words):
    line = refused("list", flag)
    assert all(word in line for word in words), line


def test_a_configuration_is_shown_with_values_meanings_and_defaults(launch):
    config = "--config=configs/lsa/fig6_mnist.py:small"
    result = launch("show", config, "--config.data.copies=2", "--fields=noise,seed,data")
    assert result.returncode == 0, result.stderr
    assert "experiment lsa/noise_curves, 48 runs\ndata: mnist\n" in result.stdout
    assert "  noise = 0.0  swept: 0.0, 1.0, 2.0\n" in result.stdout
    assert "* data.copies = 2  (default 1)\n" in result.stdout
    assert "  seed = 0  swept: 0, 1, 2, 3\n" in result.stdout
    assert "* data.dataset = 'mnist'  (default 'digits')\n      source of" in result.stdout
    assert "accepted: a whole number, 0 or more" in result.stdout
    assert "width_factor" not in result.stdout


def test_what_is_changed_alone_can_be_shown(launch):
    result = launch("show", "--config=configs/quickstart.py", "--changed")
    fields = [line for line in result.stdout.splitlines() if " = " in line]
    assert fields and all(line.startswith("* ") for line in fields)


def test_a_field_or_configuration_that_does_not_exist_is_refused(refused):
    quickstart = "--config=configs/quickstart.py"
    assert "--fields has 'dat'" in refused("show", quickstart, "--fields=dat")
    assert "did you mean configs/quickstart.py?" in refused("show", "--config=configs/quikstart.py")


LINES = {
    "--config=configs/lsa/fig6": ["", ":quick", ":small", ":width_1", ":widths"],
    "--config=configs/lsa/fig6_mnist.py:s": [":small"],
}


def completed(shell, line):
    """Returns what a shell makes of the last word of a line."""
    source = f"{sys.executable} -m launch.list --completion={shell} | source\n"
    if shell == "bash":
        source = f"""source <({sys.executable} -m launch.list --completion=bash)
COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=('{sys.executable}')
_lsa_jax_complete
given='{line.rpartition(" ")[2]}'
for reply in "${{COMPREPLY[@]}}"; do
    case $given in *:*) echo "${{given%:*}}:$reply" ;; *) echo "--config=$reply" ;; esac
done"""
    else:
        source += f"complete -C '{line}'"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        [shell, "-c", source], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return sorted(result.stdout.split())


@pytest.mark.parametrize("given", LINES)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_shells_complete_configurations(shell, given):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    expected = [f"--config=configs/lsa/fig6_mnist.py{size}" for size in LINES[given]]
    assert completed(shell, f"python -m launch.sweep {given}") == sorted(expected)


def test_other_programs_are_completed_as_before():
    assert completed("bash", "python train.py --config=configs/lsa/fig6") == []
