"""The command examines a machine."""

import json

import pytest

from launch import doctor as command
from lsa_jax.preflight import doctor


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
def test_all_checks_pass_and_programs_reach_a_share_of_the_rates(launch, tmp_path):
    file = tmp_path / "doctor.json"
    result = launch("doctor", f"--workdir={tmp_path}", f"--json={file}", bare=False)
    found = json.loads(file.read_text())
    others = [check for check in found["checks"] if check["name"] != "throughput"]
    assert all(check["good"] for check in others), result.stdout  # the machine may be busy
    chip, shares = (found["checks"][-1]["numbers"][name] for name in ("chip", "shares"))
    assert all(0.01 < share < 3 for share in shares)
    assert chip["bandwidth"] > 1e8
