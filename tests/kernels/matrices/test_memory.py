"""Free memory and disk space."""

import shutil

import jax
import pytest

from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices import memory


class Accelerator:
    """A device with memory of its own, two gigabytes of which are in use."""

    def __init__(self, total):
        self._total = total

    def memory_stats(self):
        return {"bytes_limit": self._total, "bytes_in_use": 2e9}


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Writes control groups and which of them this process is in; the host itself is boundless."""
    monkeypatch.setattr(memory, "_free", lambda: 1e15)
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "own")

    def write(own, limits, names=("memory.max", "anon")):
        limit, used = names
        for group, most in limits.items():
            (tmp_path / group).mkdir(parents=True)
            (tmp_path / group / limit).write_text(f"{most}\n")
            (tmp_path / group / "memory.stat").write_text(f"{used} 1000\nfile 0\n")
        (tmp_path / "own").write_text(own)

    return write


@pytest.mark.usefixtures("unchecked")
def test_a_tile_may_take_half_of_the_free_memory_of_an_accelerator(monkeypatch):
    for num_devices in (1, 4):  # each has memory of its own, and the host's matrix takes none of it
        assert memory.tile_limit(Accelerator(16e9), num_devices, output=1e12) == 7e9
    monkeypatch.setattr(memory, "host_available", lambda: 123.0)
    assert memory.device_available() == 123
    monkeypatch.setattr(jax, "local_devices", lambda: [Accelerator(16e9)])
    assert memory.device_available() == 14e9


@pytest.mark.parametrize(
    "free, output, limit",
    [(1e12, 1e6, 1e9), (1e9, 0.0, 5e8), (1e9, 6e8, 2e8), (1e9, 2e9, 0.0)],
    ids=["a gigabyte at most", "half", "half of what the matrix leaves", "nothing left"],
)
def test_devices_of_a_cpu_share_the_hosts_memory(free, output, limit, monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: free)
    for num_devices in (1, 4):
        found = memory.tile_limit(jax.devices()[0], num_devices, output)
        assert found == pytest.approx(limit / num_devices)


@pytest.mark.parametrize(
    ("own", "names"),
    [
        ("0::{}\n", ("memory.max", "anon")),
        ("4:cpu:/elsewhere\n5:memory,pids:{}\n", ("memory.limit_in_bytes", "total_rss")),
    ],
    ids=["version 2", "version 1"],
)
def test_the_smallest_limit_of_all_groups_around_a_process_counts(own, names, groups):
    # As Slurm has it: the job is limited, and the processes are two groups further down.
    limits = {"job_7": "9000", "job_7/step_0": "9500", "job_7/step_0/task_0": "max"}
    parent = "memory/" if ":memory" in own else ""
    elsewhere = {"elsewhere": "2000", "memory/elsewhere": "2000"} if parent else {}
    groups(
        own.format("/job_7/step_0/task_0"),
        {parent + group: most for group, most in limits.items()} | elsewhere,
        names,
    )
    assert memory.host_available() == 8000


def test_a_file_that_is_there_holds_its_blocks_already(tmp_path, monkeypatch):
    small = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: small)
    path = tmp_path / "matrix.npy"
    memory.check_fits_disk(path, (5, 25), 1000.0)
    with pytest.raises(InputError, match="its disk has 1e\\+03 left"):
        memory.check_fits_disk(path, (5, 25), 1001.0)
    path.write_bytes(bytes(100_000))
    held = 512 * path.stat().st_blocks
    assert held >= 100_000
    memory.check_fits_disk(path, (5, 25), 1000.0 + held)
    with pytest.raises(InputError, match="a path on a larger disk"):
        memory.check_fits_disk(path, (5, 25), 1001.0 + held)
