"""A gallery and the finished sweeps that go into it."""

from pathlib import Path

import pytest
from published_sweeps import HOST, RECORD, configuration, finish

from lsa_jax.reporting import reproduction
from lsa_jax.reporting.reproduction import DONE, FAILED, Sweep


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Returns a gallery and a reproduction with the finished sweeps a and b."""
    monkeypatch.chdir(tmp_path)
    sweeps = []
    for name, status in (("a", DONE), ("b", DONE), ("c", FAILED)):
        path = Path("configs/lsa") / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(configuration(name))
        timed = {"wall_seconds": 70.0, "cpu_seconds": 50.0, "machine": HOST | RECORD}
        sweeps.append(Sweep(name, f"{path}:small", "", "", "", status, **timed))
    workdir = tmp_path / "out"
    for name in ("a", "b"):
        finish(workdir, name)
    record = {"paper": "lsa", "scale": "small", "title": "T", "command": "", "sweeps": sweeps}
    reproduction.write(workdir, record)
    (tmp_path / "gallery").mkdir()
    return tmp_path / "gallery", workdir
