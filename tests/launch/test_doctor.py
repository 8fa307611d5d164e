"""The command examines a machine, and calibrates a preflight on it."""

import json

import pytest

from launch import doctor as command
from lsa_jax import costs
from lsa_jax.preflight import doctor, programs


def test_the_command_leaves_only_its_file_and_fails_where_a_check_does(
    given, monkeypatch, tmp_path, capsys
):
    file, workdir = tmp_path / "doctor.json", tmp_path / "new"
    chosen = [check for check in doctor.CHECKS if check.name in ("devices", "locks")]
    broken = doctor.Check("broken", lambda folder: 1 / 0, "mend it")
    for checks, status in ((chosen, 0), ([broken, *chosen], 1)):
        monkeypatch.setattr(doctor, "CHECKS", tuple(checks))
        with given(workdir=str(workdir), json=str(file)):
            assert command.main() == status
        found = json.loads(file.read_text())["checks"]
        assert [check["name"] for check in found] == [check.name for check in checks]
        assert not any(workdir.iterdir())
    assert found[0]["remedy"] == "mend it" and "ZeroDivisionError" in found[0]["words"]
    assert "red: broken" in capsys.readouterr().out


@pytest.mark.slow
def test_all_checks_pass_and_calibrate_a_preflight(launch, tmp_path):
    file = tmp_path / "doctor.json"
    result = launch("doctor", f"--workdir={tmp_path}", f"--json={file}", bare=False)
    found = json.loads(file.read_text())
    others = [check for check in found["checks"] if check["name"] != "throughput"]
    assert all(check["good"] for check in others), result.stdout  # the machine may be busy
    chip, (tiles, epochs) = programs.calibrated(file, costs.CHIPS["cpu"], 0.4)
    assert 0.01 < tiles.value < 3 and 0.01 < epochs.value < 3 and "measured" in epochs.source
    assert chip.bandwidth > 1e8 and min(chip.flops.values()) > 1e8
