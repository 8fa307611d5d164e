"""Finished sweeps as the tests of the gallery make and publish them."""

import functools
from unittest import mock

import matplotlib.pyplot as plt
import pandas as pd

from lsa_jax.reporting import files, gallery
from lsa_jax.reporting.report import Report
from lsa_jax.sweep import publishing

CLAIM = {"item": "a gap", "paper": 0.75, "ours": 0.5, "spread": 0.01, "status": "not shown"}
CLAIMS = [CLAIM | {"low": 0.4, "high": 0.6, "note": "<few> seeds"}]
CLAIMS += [
    {"item": f"claim {number}", "paper": "-", "ours": "", "spread": None, "status": "not run"}
    for number in range(9)
]
HOST = {"cpu": "A processor", "cores": 2, "memory_gib": 24.0, "python": "3.11.7"}
RECORD = {"devices": ["cuda:0 (H100)", "cuda:1 (H100)"], "versions": {"jax": "0.10.2"}}
POINTS = [{"k": 64}]
RUNS = {"k=64": 2, "k=256": 1}


def remake(folder):
    """Writes the files of a report and returns it."""
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.plot([0, 1], [1, 0])
    for kind in ("svg", "png"):
        figure.savefig(folder / f"curve.{kind}")
    plt.close(figure)
    files.write_json(folder / "report.json", CLAIMS)
    (folder / "report.md").write_text("# T\n\n![curve](curve.png)\n")
    table = pd.DataFrame({"run": ["a", "b"], "n": [10_000, 20], "x_i": [0.123456, None]})
    return Report("T", [("Means", table)], [], {"curve": functools.partial(draw, None)})


def draw(axis):
    """Draws a curve against its number."""


def configuration(name):
    """Returns the file of a configuration, of any size."""
    return f'''"""Figure {name}: it shows."""
import ml_collections


def get_config(variant="full"):
    return ml_collections.ConfigDict({{"experiment": "lsa/lemmas", "name": "{name}"}})


def get_sweep(config):
    return {POINTS}
'''


def finish(workdir, name, command=(), points=POINTS):
    """Writes the files of a finished sweep."""
    config = {"experiment": "lsa/lemmas", "name": name}
    record = RECORD | {"command": list(command), "config": config, "sweep": points}
    record["host"] = HOST
    files.write_json(workdir / name / "config.json", record)
    for run, seconds in RUNS.items():
        result = {"id": run, "seconds": seconds, "status": "ok"}
        files.write_run(workdir / name, run, result, [{"step": 1, "loss": 0.1 + seconds}])
    (workdir / name / "results.csv").write_text("seconds,status\n2,ok\n1,ok\n")
    files.write_json(workdir / name / "report.json", [])


def publish(place, made=None):
    """Returns the lines on sweeps, and the names of sweeps whose report was made again."""
    remade = []

    def make(folder):
        remade.append(folder.name)
        return (made or remake)(folder)

    with mock.patch.object(publishing, "remake", make):
        return list(publishing.publish(place[0], publishing.finished([place[1]]))), remade


def kept_of(place):
    """Returns where the results of a are kept."""
    (item,) = (item for c, item in gallery.read(place[0]).items() if "/a.py" in c)
    return place[0] / item.folder / item.results
