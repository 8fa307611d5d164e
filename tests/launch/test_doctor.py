"""The command examines a machine, and calibrates a preflight on it."""

import json

import pytest

from launch import doctor as command
from lsa_jax import costs
from lsa_jax.errors import InputError
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
    chip = programs.rated(file, costs.CHIPS["cpu"])
    tiles, epochs = programs.measured(file, chip, 0.4)
    assert 0.01 < tiles.value < 3 and 0.01 < epochs.value < 3 and "measured" in epochs.source
    assert chip.bandwidth > 1e8 and min(chip.flops.values()) > 1e8


def test_rates_that_doctor_measured_stand_in_for_a_data_sheet(tmp_path):
    file, cpu = tmp_path / "doctor.json", costs.CHIPS["cpu"]
    rates = {"bfloat16": 4e9, "default": 2e9, "highest": 1e9, "vector": 5e8}
    row = {"device": "cpu", "tiles": True, "products": {"highest": 1e9}, "others": 0.0}
    row |= {"bytes": 1.0, "ours_s": 4.0}  # a quarter of the rate

    def written(bandwidth):
        chip = {"bandwidth": bandwidth, "flops": rates}
        file.write_text(json.dumps({"checks": [], "chip": chip, "calibration": [row]}))
        return programs.rated(file, cpu)

    chip = written(1e10)
    assert chip.flops == rates and chip.bandwidth == 1e10
    tiles, others = programs.measured(file, chip, 0.4)
    assert tiles.value == 0.25 and others.value == 0.4
    assert programs.rated(file, costs.CHIPS["h100"]) == costs.CHIPS["h100"]
    assert written(0) == cpu
    with pytest.raises(InputError, match="launch.doctor --json"):
        programs.measured(file, cpu, 0.4)
