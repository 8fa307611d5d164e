"""Doctor: all checks pass on a machine in order, and each injected fault fails the right one."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.preflight import doctor

CHECKS = {check.name: check for check in doctor.CHECKS}


def examined(name, folder):
    (finding,) = doctor.examine([CHECKS[name]], folder)
    return finding


def without_space(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def without_locks(*arguments):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def rounded(function):
    """Returns a function whose floating-point arguments lose half of their bits."""

    def call(*arguments, **options):
        short = [
            a.astype(jnp.bfloat16).astype(a.dtype) if hasattr(a, "dtype") else a for a in arguments
        ]
        return function(*short, **options)

    return call


@pytest.mark.parametrize(
    "name, target, fault",
    [
        ("precision", "jax.numpy.matmul", rounded(jnp.matmul)),
        ("infinite kernel", "lsa_jax.kernels.gram", rounded(doctor.kernels.gram)),
        ("finite kernel", "lsa_jax.kernels.gram", rounded(doctor.kernels.gram)),
        ("devices", "os.path.exists", lambda path: path == "/dev/nvidia0"),
        ("versions", "importlib.metadata.version", lambda name: "0.1"),
        ("checkpoints", "os.fsync", without_space),
        ("checkpoints", "lsa_jax.training.checkpoints.restore", lambda folder, tree: None),
        ("locks", "fcntl.flock", lambda file, operation: None),
        ("locks", "fcntl.flock", without_locks),
    ],
)
def test_a_fault_fails_its_check_with_advice(name, target, fault, monkeypatch, tmp_path):
    sound = examined(name, tmp_path / "sound")
    assert sound.good and not sound.remedy, sound.words
    with monkeypatch.context() as patch:
        patch.setattr(target, fault)
        finding = examined(name, tmp_path / "faulty")
    assert not finding.good and finding.remedy == CHECKS[name].remedy
    text = doctor.as_text(finding, color=True)
    assert finding.words in text and finding.remedy in text and "\033[31m" in text


def test_training_has_to_learn_and_to_end_with_the_same_bits(monkeypatch, tmp_path):
    def result(accuracy, value):
        row = {"test_accuracy": np.array([accuracy])}
        return {"a": np.array(value)}, doctor.training.History([row], {}, None)

    def finding(accuracy, again):
        monkeypatch.setattr(doctor, "_first", lambda width: result(accuracy, 1.0))
        monkeypatch.setattr(doctor, "_trained", lambda width: result(accuracy, again))
        return examined("training", tmp_path)

    assert finding(0.9, 1.0).good
    assert not finding(0.3, 1.0).good
    assert "other bits" in finding(0.9, 1.0 + 1e-15).words and not finding(0.9, 1.0 + 1e-15).good


@pytest.mark.parametrize("busy, wanted, good", [(2, 2, True), (0.3, 2, True), (0.3, 0.4, False)])
def test_cores_that_other_processes_take_are_no_fault(busy, wanted, good, monkeypatch, tmp_path):
    chip = doctor.Chip("cpu", "cpu", None, 1e10, dict.fromkeys(("highest", "vector"), 1e10))
    row = {"products": {}, "others": 1, "bytes": 1, "ours_s": 1.0}
    monkeypatch.setattr(doctor, "count_cores", lambda: 2)
    monkeypatch.setattr(doctor, "_measured_chip", lambda: (chip, busy, wanted))
    monkeypatch.setattr(doctor, "_work", lambda: [row, row])
    finding = examined("throughput", tmp_path)
    assert finding.good == good, finding.words
    assert ("other processes" in finding.words) == (busy < wanted / 2)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="counted by Linux alone")
def test_time_waited_for_a_core_is_counted():
    cores, own = os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(0, own)  # the child's too
    try:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            time.sleep(0.1)
            cpu, waited, start = time.process_time(), doctor._seconds_waited(), time.monotonic()
            while time.process_time() - cpu < 0.2:
                pass
            waited, seconds = doctor._seconds_waited() - waited, time.monotonic() - start
            other.kill()
    finally:
        os.sched_setaffinity(0, cores)
    assert 0.05 < waited < seconds
