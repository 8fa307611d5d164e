"""The time left comes from the pace since the first report."""

import io
import re

import pytest

from lsa_jax.reporting import progress


@pytest.mark.parametrize("terminal", [False, True])
def test_the_time_left_leaves_out_compilation_and_what_a_checkpoint_had(monkeypatch, terminal):
    clock, stream = [0.0], io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with progress.Progress(4, interval=0.0) as bar:
        # A checkpoint had 3.6 points; a hundredth of one takes a second.
        for clock[0], done in ((28.0, 3.6), (29.0, 3.61), (38.0, 3.7), (3728.0, 3.75)):
            bar.advance_to(done, "d")
    lines = stream.getvalue().replace("\r", "\n").strip().split("\n")
    left = [found[0] if (found := re.findall("about (.*) left", line)) else None for line in lines]
    assert "3 of 4 runs" in lines[-1] or "3.8 of 4 runs" in lines[-1]
    assert left[-1] == "1 h 43 min"  # 0.25 at 0.15 in 3,700 s
    if not terminal:  # a bar shows some of them
        assert left[:3] == [None, "39 s", "30 s"] and len(lines) == 4


@pytest.mark.parametrize(
    "kinds, reports, expected",
    [
        # a: 2 s a point; b: 20 s, at first by the mean of the others.
        (
            {"a": 4, "b": 5},
            [(10, 1, "a"), (12, 2, "a"), (50, 3, "b"), (70, 4, "b"), (72, 5, "a"), (132, 8, "b")],
            [None, "14 s", "12 s", "1 min 4 s", "1 min 2 s", "2 s"],
        ),
        # b reports once, at its end: 1 s a point, or less without compilation.
        ({"a": 3, "b": 10}, [(10, 1, "a"), (14, 2, "a"), (15, 3, "b")], [None, "44 s", "13 s"]),
    ],
)
def test_kinds_of_work_have_paces_of_their_own(monkeypatch, kinds, reports, expected):
    clock, stream = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with progress.Progress(sum(kinds.values()), interval=0.0, kinds=kinds) as bar:
        for clock[0], done, kind in reports:
            bar.advance_to(done, "d", kind)
    lines = stream.getvalue().strip().split("\n")
    left = [found[0] if (found := re.findall("about (.*) left", line)) else None for line in lines]
    assert left == expected
