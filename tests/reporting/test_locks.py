"""A folder is held by one process alone, or by several on different groups; never by both."""

import contextlib

import pytest

from lsa_jax.errors import InputError
from lsa_jax.reporting import locks


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(locks, "_PATIENCE", 0.1)


ALONE = locks.alone


def holding(*names):
    return lambda workdir: locks.holding(workdir, list(names))


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (ALONE, ALONE, True),
        (ALONE, holding("a"), True),
        (holding("a"), ALONE, True),
        (holding("a"), holding("b", "a"), True),
        (holding("a"), holding("b", "c"), False),
    ],
)
def test_who_may_enter_beside_whom(tmp_path, first, second, refused):
    with first(tmp_path):
        expected = (
            pytest.raises(InputError, match="in use") if refused else contextlib.nullcontext()
        )
        with expected, second(tmp_path):
            pass
    with second(tmp_path):  # nothing is left of the first
        pass


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), ALONE(tmp_path / "file" / "below"):
        pass


@pytest.mark.parametrize("error", [OSError(37, "No locks available"), NotImplementedError("flock")])
@pytest.mark.parametrize("hold", [ALONE, holding("a"), locks.reporting])
def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, hold, error):
    def acquire(*args, **kwargs):
        raise error

    monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    with pytest.raises(InputError, match="cannot be written: (No locks|flock)"), hold(tmp_path):
        pass
