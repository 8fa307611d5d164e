"""Spoiled results of every experiment: a claim that was shown of them no longer reads "shown".

Each kept sweep is unpacked, its runs are spoiled on disk, and its claims are decided anew. Exact
numbers (population flows, closed forms, constructions) do not depend on seeds: they are listed.
"""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from lsa_jax.reporting import files, gallery
from lsa_jax.sweep import publishing
from lsa_jax.sweep.points import recorded_points
from lsa_jax.sweep.run import make_report

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
# Beginnings of items that are decided by exact numbers, for which seeds say nothing.
EXACT = (
    "exponent in k of the steps, population",
    "smallest k from which on the error is reached, population",
    "error by hand",
    "columns of V with their largest entry at pi, exact step",
    "correlation of V with P, exact step",
    # An error of 0 in every seed is equal by itself.
    "the network's test error, k = 10000",
)


def packed(item):
    return GALLERY / item.folder / item.results


def records():
    """Returns the smallest kept sweep of every experiment that shows a claim over seeds."""
    found, seen = {}, set()
    kept = (item for item in gallery.read(GALLERY).values() if item.results)
    for item in sorted(kept, key=lambda item: packed(item).stat().st_size):
        shown = [c["item"] for c in item.sweep.claims if c["status"] == "shown"]
        if item.configuration in seen or all(name.startswith(EXACT) for name in shown):
            continue
        record = publishing.read_kept(packed(item))["record"]
        if len({point["seed"] for point in record["sweep"] if "seed" in point}) > 1:
            seen.add(item.configuration)  # whose larger sweeps are of the same experiment
            found.setdefault(record["config"]["experiment"], item)
    return found


RECORDS = records()


_POINTS = {}


def points_of(folder):
    """Returns a folder's configuration and points, which are made once for equal records."""
    record = (folder / "config.json").read_bytes()
    if record not in _POINTS:
        _POINTS[record] = recorded_points(folder)
    return _POINTS[record]


def decided(folder):
    """Returns the status of a folder's claims, by item; exact ones are left out."""
    config, points = points_of(folder)
    results = files.read_results(folder, [point.id for point in points])
    rows = make_report(config, points, results, folder).claims
    return {row.item: row.status for row in rows if not row.item.startswith(EXACT)}


def runs_of(folder):
    """Returns the settings of the finished runs of a folder, by id."""
    _, points = points_of(folder)
    return {
        point.id: {name.split(".")[-1]: value for name, value in point.settings.items()}
        for point in points
        if files.read_result(folder, point.id) is not None
    }


def series_of(own, *without):
    """Returns the settings of a run but for some, as a key."""
    return tuple((name, str(value)) for name, value in own.items() if name not in without)


def copy(folder, source, target, own):
    """Gives one run the results of another; its settings stay its own."""
    there, here = (files.run_directory(folder, run) for run in (source, target))
    result = files.read_result(folder, source) | own | {"id": target}
    for kept in there.iterdir() if there != here else ():
        if kept.name != "result.json":
            (here / kept.name).unlink(missing_ok=True)  # a link to the untouched one
            os.link(kept, here / kept.name)
    files.write_json(here / "result.json", result)


def equal_seeds(folder):
    """All seeds have the results of the first one: nothing was drawn."""
    first = {}
    for run, own in runs_of(folder).items():
        source = first.setdefault(series_of(own, "seed"), run)
        copy(folder, source, run, own)


def dropped_runs(folder):
    """The last run of every series is missing."""
    last = {series_of(own, "seed"): run for run, own in runs_of(folder).items()}
    for run in last.values():
        shutil.rmtree(files.run_directory(folder, run))


def one_seed(folder):
    """The sweep asks for one seed, and has it."""
    record = files.read_json(folder / "config.json")
    seed = next(point["seed"] for point in record["sweep"] if "seed" in point)
    others = [p.id for p in points_of(folder)[1] if p.settings.get("seed", seed) != seed]
    for run in others:
        shutil.rmtree(files.run_directory(folder, run))
    record["sweep"] = [point for point in record["sweep"] if point.get("seed", seed) == seed]
    axes = record["config"].get("sweep", {})
    axes |= {name: [seed] for name, value in axes.items() if name.endswith("seed") and value}
    files.write_json(folder / "config.json", record)


def begun(folder):
    """The first run alone has finished: other learners' settings are no columns of the results."""
    for run in [*runs_of(folder)][1:]:
        shutil.rmtree(files.run_directory(folder, run))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Returns a fresh folder of the files of a kept sweep, which is unpacked once.

    They are links: whoever writes a file puts another in its place.
    """
    first = tmp_path_factory.mktemp("kept")

    def links(name, folder):
        if not (first / name).exists():
            publishing.unpack(GALLERY / f"{name}.results.json.xz", first / name)
        return Path(shutil.copytree(first / name, folder, copy_function=os.link))

    return links


@pytest.mark.parametrize("spoil", [equal_seeds, dropped_runs, one_seed, begun])
@pytest.mark.parametrize("kind", RECORDS)
def test_spoiled_seeds_show_nothing(kind, spoil, unpacked, tmp_path):
    unpacked(RECORDS[kind].name, tmp_path / "sweep")
    spoil(tmp_path / "sweep")
    after = decided(tmp_path / "sweep")
    assert [item for item, status in after.items() if status == "shown"] == []


def changed(folder, change):
    """Changes the numbers of every run's result."""
    rng = np.random.default_rng(0)
    for run, own in runs_of(folder).items():
        result = files.read_result(folder, run)
        history = files.read_all_metrics(folder, run)
        files.write_run(folder, run, result | change(result, rng) | own, history)


def learned_nothing(result, rng):
    """Accuracies of guesses among the classes, on training and test examples."""
    guess = rng.binomial(1000, 1 / int(result.get("num_classes") or 2)) / 1000
    found = {name: guess for name in result if name.endswith("_accuracy")}
    return found | ({"score": 100 * guess} if "score" in result else {})


def not_fitted(result, rng):
    """Training accuracies far from a fit."""
    return {"train_accuracy": 0.5 + 0.01 * rng.random()}


def exchanged(folder, learners):
    """Two learners have each other's results."""
    runs, one = runs_of(folder), dict(zip(learners, learners[::-1], strict=True))
    of = {(own.get("learner"), series_of(own, "learner")): run for run, own in runs.items()}
    before = {r: (files.read_result(folder, r), files.read_all_metrics(folder, r)) for r in runs}
    for run, own in runs.items():
        other = of.get((one.get(own.get("learner")), series_of(own, "learner")))
        if other is not None:
            result, history = before[other]
            files.write_run(folder, run, result | own | {"id": run}, history)


def gaps(folder):
    """Returns the statuses of claims that the network exceeds another learner."""
    return {i: status for i, status in decided(folder).items() if "etwork minus" in i}


COMPARED = ("lsa/fig6_mnist-small", "beyond/papers-small", "feature_learning/table1")


@pytest.mark.parametrize("name", [*COMPARED, "beyond/dial-small"])
def test_learners_that_learned_nothing_show_no_gap(name, unpacked, tmp_path):
    unpacked(name, tmp_path / "sweep")
    changed(tmp_path / "sweep", learned_nothing)
    found = gaps(tmp_path / "sweep")
    assert found and "shown" not in found.values()


# Experiments whose claims all need a learner above chance.
LEARNED = ("filter_clouds", "fixed_features", "learning", "weight_clouds")


@pytest.mark.parametrize("kind", [f"feature_learning/{room}" for room in LEARNED])
def test_of_networks_that_learned_nothing_no_claim_is_shown(kind, unpacked, tmp_path):
    unpacked(RECORDS[kind].name, tmp_path / "sweep")
    assert "shown" in decided(tmp_path / "sweep").values()
    changed(tmp_path / "sweep", learned_nothing)
    assert "shown" not in decided(tmp_path / "sweep").values()


@pytest.mark.parametrize(
    ("name", "kernel", "words"),
    [
        (COMPARED[0], "ntk_infinite", "infinite NTK"),
        (COMPARED[1], "ntk_start", "fixed kernel"),
        (COMPARED[2], "ntk", "NTK"),
    ],
)
def test_a_network_and_a_kernel_that_are_exchanged_show_no_gap(
    name, kernel, words, unpacked, tmp_path
):
    unpacked(name, tmp_path / "sweep")
    before = gaps(tmp_path / "sweep")
    exchanged(tmp_path / "sweep", ("network", kernel))
    after = gaps(tmp_path / "sweep")
    assert "shown" in before.values()
    of_both = [item for item, status in after.items() if words in item and status == "shown"]
    assert not [item for item in of_both if before.get(item) == "shown"]


def test_kernels_that_do_not_fit_show_no_gap(unpacked, tmp_path):
    unpacked("lsa/fig6_mnist-small", tmp_path / "sweep")
    changed(tmp_path / "sweep", not_fitted)
    assert set(gaps(tmp_path / "sweep").values()) <= {"condition not met", "measured"}
