"""The history of benchmarks grows by a row a work, and a loss on the same machine is seen."""

import pytest

from benchmarks import history
from lsa_jax.errors import InputError

ROW = {"work": "infinite NTK", "size": "4 x 4", "ours_processor_s": 1.0, "device": "cpu"}


def test_only_a_ratio_a_tenth_below_the_last_of_the_same_is_slower(tmp_path):
    file = tmp_path / "history.csv"

    def measured(ratio, suite="kernels", peer="peer, batch 2", **others):
        return history.append(file, suite, ROW | {"processor_ratio": ratio, "peer": peer} | others)

    assert measured(2.0) == ""
    assert measured(1.82, peer="peer, batch 4") == ""  # the peer's best setting may change
    assert "lost 12%" in measured(1.6)
    assert measured(1.6) == ""
    # Other machines, sizes, peers and suites are compared with their own.
    for other in ({"device": "H100"}, {"size": "8 x 8"}, {"peer": "other"}, {"suite": "training"}):
        assert measured(0.5, **other) == ""
    rows = history.read(file)
    assert rows["ratio"].tolist() == [2.0, 1.82, 1.6, 1.6] + [0.5] * 4
    assert rows["machine"].str.startswith("H100, ").tolist() == [False] * 4 + [True] + [False] * 3
    axis = history.draw(rows).axes[0]
    lines = [list(line.get_ydata()) for line in axis.get_lines()]
    assert [2.0, 1.82, 1.6, 1.6] in lines and lines.count([0.5]) == 4


def test_another_table_is_refused_and_stays(tmp_path):
    file = tmp_path / "history.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="history.csv.*accepted"):
        history.append(file, "kernels", ROW | {"processor_ratio": 1.0, "peer": "peer"})
    assert file.read_text() == "a,b\n1,2\n"
