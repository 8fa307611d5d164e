"""How long a sweep still takes is told by what is computed here, at the pace that it has here."""

import io
import re

import pytest

from lsa_jax.reporting import progress


@pytest.fixture
def told(monkeypatch, capsys):
    """Returns what is said to be left, in seconds, after so many points at so many seconds."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])

    def tell(total, *tellings):
        clock[0] = 0.0
        with progress.Progress(total, interval=0.0) as bar:
            for seconds, done, group in tellings:
                clock[0] = seconds
                bar.advance_to(done, group)
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == len(tellings)
        return [_left(line) for line in lines]

    return tell


def _left(line):
    found = re.search(r"about (?:(\d+):)?(\d+):(\d+) left", line)
    return found and 3600 * int(found[1] or 0) + 60 * int(found[2]) + int(found[3])


def test_what_a_checkpoint_had_is_not_taken_for_the_pace(told):
    assert told(4, (1.0, 3.6, "d"), (2.0, 3.61, "d"), (11.0, 3.7, "d")) == [None, 39, 30]


def test_a_group_that_was_resumed_and_is_over_counts_from_where_it_went_on(told):
    # Nine tenths of the first were there; a tenth of a group takes 10 s.
    tellings = [(1.0, 0.9, "a"), (6.0, 0.95, "a"), (11.0, 1.0, "a"), (21.0, 1.1, "b")]
    assert told(4, *tellings)[1:] == [305, 300, 290]


def test_groups_that_tell_their_ends_alone_count_in_full_once_they_are_over(told):
    assert told(3, (10.0, 1.0, "a"), (20.0, 2.0, "b"), (30.0, 3.0, "c")) == [None, 10, 0]


def test_compiling_counts_in_a_group_that_began_here(told):
    tellings = [(28.0, 0.1, "a"), (30.0, 0.2, "a"), (46.0, 1.0, "a"), (74.0, 1.1, "b")]
    # Until the first tenth is done takes 28 s, then each takes 2: a group 46 s.
    assert told(2, *tellings) == [None, 270, 46, 41]


def test_a_bar_on_a_terminal_has_the_same_time_left(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    clock, terminal = [0.0], Terminal()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    with progress.Progress(4) as bar:
        for seconds, done in ((1.0, 3.6), (2.0, 3.61)):
            clock[0] = seconds
            bar.advance_to(done, "d")
    last = terminal.getvalue().replace("\n", "\r").rstrip("\r").split("\r")[-1]
    assert "3 of 4 runs" in last and "about 0:39 left: d" in last
    assert "<" not in last
