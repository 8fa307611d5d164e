"""Checkpoints of training, and a kill after one of them."""

import pytest

from lsa_jax.training import checkpoints


class Saved(list):
    """The checkpoints' folder names and marks; a call is killed after the one that is fatal."""

    fatal = None


@pytest.fixture
def saved(monkeypatch):
    """Checkpoints in the order in which they are saved; `saved.fatal = ("part_001", 6)` kills."""
    marks, save = Saved(), checkpoints.save

    def save_and_die(directory, mark, tree):
        save(directory, mark, tree)
        marks.append((directory.name, mark))
        if marks[-1] == marks.fatal and marks.count(marks.fatal) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "save", save_and_die)
    return marks
