"""Code of README and docs runs, the files they name exist, public modules are listed."""

import ast
import functools
import importlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import lsa_jax
from lsa_jax import experiments
from lsa_jax.experiments.lsa.noise_curves import families, learners, settings
from lsa_jax.sweep.fields import load_settings
from lsa_jax.sweep.variants import set_fields

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = {str(page.relative_to(ROOT)): page.read_text() for page in (ROOT / "README.md", *DOCS)}
CONFIGS = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "configs").rglob("*.py"))

# A block of code, with the file that it is where it has a title.
_BLOCK = re.compile(
    r"^(?P<fence>```)(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def blocks(page, language):
    """Returns (title, code) of a page's blocks in a language."""
    found = _BLOCK.finditer(PAGES[page])
    return [(block["title"], block["code"]) for block in found if block["language"] == language]


TITLES = {title: code for page in PAGES for title, code in blocks(page, "python") if title}


def run_page(page):
    """Runs a page's blocks in order, but for those that are files."""
    namespace = {}
    for title, code in blocks(page, "python"):
        if title is None:
            exec(compile(code, page, "exec"), namespace)
    return namespace


@pytest.fixture
def overlay(monkeypatch, tmp_path):
    """Puts the files that the docs add to the project where Python finds them as part of it."""
    for name, code in TITLES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(code)
    for folder in {Path(name).parent for name in TITLES if name.startswith("lsa_jax/")}:
        if (ROOT / folder).is_dir():
            package = importlib.import_module(".".join(folder.parts))
        else:  # an experiment's own
            package, folder = experiments, folder.parent
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / folder)])
    yield tmp_path
    for name in TITLES:
        module = name.removesuffix(".py").replace("/", ".")
        sys.modules.pop(module, None)
    sys.modules.pop("lsa_jax.experiments.stripes", None)
    learners.LEARNERS.pop("last_layer", None)
    families.FAMILIES.pop("strided_cnn", None)
    importlib.reload(settings)


@pytest.fixture
def quick_diagnosis(monkeypatch):
    """Gives every diagnosis a few seconds."""
    given = {"minutes": 0.02, "seeds": 2, "folds": 1, "progress": False}
    monkeypatch.setattr(lsa_jax, "diagnose", functools.partial(lsa_jax.diagnose, **given))


@pytest.mark.documents
def test_the_readme_runs(quick_diagnosis, capsys):
    found = run_page("README.md")["found"]
    assert str(found) in capsys.readouterr().out and len(found.table) >= 3


@pytest.mark.documents
def test_the_tutorial_has_a_lazy_and_a_rich_network(capsys):
    with jax.numpy_rank_promotion("allow"):  # as in a user's session
        found = run_page("docs/diagnose.md")
        trained = run_page("docs/diagnose/trained.md")
    assert (found["lazy"].word, found["rich"].word) == ("lazy", "rich")
    assert trained["tuned"].answer.grades[0].number < 1e-5  # linear in the head
    assert trained["ported"].answer.grades[0].number < 1e-5
    printed = [text.strip().splitlines() for _, text in blocks("docs/diagnose.md", "text")]
    for lines, answer in zip(printed, (found["lazy"], found["rich"]), strict=True):
        ours = str(answer).splitlines()
        assert [_without_numbers(line) for line in lines[:3]] == [
            _without_numbers(line) for line in ours[:3]
        ]


@pytest.mark.documents
def test_a_grown_network_is_the_best_of_its_candidates():
    best = run_page("docs/extend/growing.md")["best"]
    assert best.scores[best.operator] == min(best.scores.values())


@pytest.mark.documents
def test_what_one_adds_runs_and_learns(overlay, capsys):
    run_page("docs/extend/network.md")
    accuracies = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(accuracies) == 2 and np.min(accuracies) > 0.7


@pytest.mark.documents
def test_the_experiment_that_one_adds_runs_and_reports(overlay, tmp_path):
    from lsa_jax.sweep.points import make_points
    from lsa_jax.sweep.run import run_sweep

    namespace = {}
    exec(TITLES["configs/stripes.py"], namespace)
    config, own = namespace["get_config"]("quick"), load_settings("stripes")
    points = make_points(config, own.sweep(config), own.validate)
    results = run_sweep(config, points, tmp_path / "run", data_dir=None, command=[])
    assert len(results) == 2 and (results["status"] == "ok").all()
    assert results["test_accuracy"].min() > 0.5
    assert "least lead" in (tmp_path / "run" / "report.md").read_text()
    assert (tmp_path / "run" / "stripes.png").stat().st_size > 0


def test_the_claim_that_one_adds_is_decided():
    from lsa_jax.experiments.lsa.noise_curves import claims
    from lsa_jax.reporting.claims import decide
    from lsa_jax.reporting.runs import Runs

    (code,) = (code for _, code in blocks("docs/extend.md", "py"))
    *given, added = ast.parse(code).body  # the last is the entry of the list
    namespace = dict(vars(claims))
    exec(compile(ast.Module(given, []), "docs/extend.md", "exec"), namespace)
    claim = eval(ast.unparse(added), namespace)
    for best, status in ((0.9, "shown"), (0.4, "not shown")):
        rows = [
            {"learner": "network", "noise": noise, "seed": seed, "test_accuracy": accuracy}
            for seed in range(3)
            for noise, accuracy in ((0.0, best + seed / 100), (1.0, 0.2))
        ]
        runs = Runs.of([], pd.DataFrame(rows).assign(status="ok", num_test=5_000))
        assert decide(claim, runs).status == status


def run_added(table, changes, learners_run, workdir):
    """Runs a short sweep of noise curves with the page's entry in one of their tables."""
    from lsa_jax.sweep.points import make_points
    from lsa_jax.sweep.run import run_sweep

    pages = [page for page in PAGES if page.startswith("docs/extend/")]
    added = [code for page in pages for title, code in blocks(page, "python") if title is None]
    (entry,) = (code for code in added if f'{table}["' in code)
    exec(entry, {})
    importlib.reload(settings)  # which reads the table once
    short = {"data.num_train": 100, "data.num_test": 50, "data.placement": "fixed_corner"}
    config = set_fields(settings.SETTINGS.default_config(), short | changes)
    config.sweep.learner = learners_run
    points = make_points(config, settings.SETTINGS.sweep(config), settings.SETTINGS.validate)
    return run_sweep(config, points, workdir, data_dir=None, command=[])


@pytest.mark.documents
def test_the_learner_that_one_adds_to_the_noise_curves_runs_and_is_in_the_report(overlay, tmp_path):
    changes, two = {"sweep.noise": (0.0, 1.0)}, ("ntk_infinite", "last_layer")
    results = run_added("LEARNERS", changes, two, tmp_path / "run")
    assert len(results) == 4 and (results["status"] == "ok").all()
    noiseless = results[results["noise"] == 0].set_index("learner")["test_accuracy"]
    assert noiseless["last_layer"] > 0.3 and noiseless["last_layer"] != noiseless["ntk_infinite"]
    assert "last layer" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.documents
def test_the_model_that_one_adds_is_found_by_name_and_runs(overlay, tmp_path):
    changes = {"model.name": "strided_cnn", "network.epochs": 2, "sweep.noise": (0.0,)}
    results = run_added("FAMILIES", changes, ("network", "ntk_infinite"), tmp_path / "run")
    assert len(results) == 2 and (results["status"] == "ok").all()


@pytest.mark.documents
@pytest.mark.parametrize(
    "page", sorted(p for p in PAGES if re.match("docs/(concepts/|kernels|running\\.)", p))
)
def test_a_page_of_instructions_runs(page):
    run_page(page)


def _without_numbers(sentence):
    return re.sub(r"[+-]?\d[\d.]*", "0", sentence.partition("it would take")[0])


@pytest.mark.documents
def test_trained_parameters_of_a_sweep_come_back_without_training(tmp_path, monkeypatch):
    from lsa_jax.experiments.lsa.noise_curves import experiment
    from lsa_jax.sweep.points import make_points
    from lsa_jax.sweep.run import run_sweep

    (code,) = (code for _, code in blocks("docs/running/trained.md", "python"))
    namespace, found, train = {}, [], experiment.train_group
    exec(code, namespace)
    monkeypatch.setattr(
        experiment, "train_group", lambda *a, **k: found.append(train(*a, **k)) or found[-1]
    )
    changes = {"data.num_train": 60, "data.num_test": 50, "network.epochs": 2}
    changes["measures"] = ("weight_movement",)
    config = set_fields(settings.SETTINGS.default_config(), changes | {"sweep.noise": (0.0, 1.0)})
    config.sweep.learner = ("network",)
    points = make_points(config, settings.SETTINGS.sweep(config), settings.SETTINGS.validate)
    run_sweep(config, points, tmp_path, data_dir=None, command=[])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("groups/*/step_*")}
    group, model, params = namespace["trained_networks"](tmp_path)
    assert [point.config.noise for point in group] == [0.0, 1.0] and len(found) == 2 and before
    jax.tree.map(np.testing.assert_array_equal, params, found[0][0])
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("groups/*/step_*")}
    one = jax.tree.map(lambda leaf: leaf[0], params)
    assert model.apply(one, np.zeros((3, 16, 16, 1), np.float32)).shape == (3, 10)


@pytest.mark.documents
def test_an_output_scale_is_a_model_that_starts_at_nought():
    namespace = run_page("docs/lazy_rich.md")
    outputs = namespace["lazy"].apply(namespace["params"], np.ones((2, 16, 16, 1), np.float32))
    np.testing.assert_array_equal(outputs, np.zeros((2, 10)))


@pytest.mark.documents
@pytest.mark.filterwarnings("ignore:`FanIn` layers assume independent inputs")
def test_what_stands_beside_neural_tangents_agrees_with_it():
    differences = run_page("docs/migrate.md")["differences"]
    assert len(differences) > 25
    # A mean of draws has an error; a solution in float32 theirs, where ours are in float64.
    expected = {"monte_carlo_kernel_fn": 0.1, "gradient_descent_mse_ensemble": 1e-3}
    for name, difference in differences.items():
        assert difference < expected.get(name, 1e-5), name


def test_files_that_contributors_are_sent_to_exist():
    (figures,) = re.findall(
        r"## A change to a figure(.*?)\n## ", PAGES["docs/extend.md"], re.DOTALL
    )
    text = (ROOT / "CONTRIBUTING.md").read_text() + figures
    paths = re.findall(r"[`(\s]((?:tests|docs|lsa_jax|configs|\.ci)/[\w/.]+)", text)
    paths = [path for path in paths if not re.search("PAPER|ROOM", path)]
    assert len(paths) > 15 and not [path for path in paths if not (ROOT / path).exists()]


def test_configurations_that_are_named_exist():
    named = {
        (page, config)
        for page, text in PAGES.items()
        for config in re.findall(r"configs/[\w/]+\.py", text)
    }
    known = {*CONFIGS, *TITLES}
    assert not [(page, config) for page, config in named if config not in known]


def commands(page):
    """Returns the launch commands of a page: (script, arguments)."""
    text = PAGES[page]
    shown = [line for _, code in blocks(page, "bash") for line in joined(code)]
    shown += [" ".join(c.split()) for c in re.findall(r"`(python -m launch[^`]*)`", text)]
    found = []
    for line in shown:
        words = shlex.split(line.removeprefix("!"), comments=True)  # a notebook's has a mark
        for place, word in enumerate(words):
            if word.startswith("launch.") and words[place - 2 : place] == ["python", "-m"]:
                after = words[place + 1 :]
                stop = next(
                    (i for i, w in enumerate(after) if w in ("&&", "&", "|", ";", ">")), None
                )
                found.append((word.removeprefix("launch."), after[:stop]))
    return found


def joined(code):
    """Returns the lines of a shell block, those that a backslash continues made one."""
    return re.sub(r"\\\n\s*", " ", code).splitlines()


# Parses flags and configuration as the script does, and stops there.
_CHECK = """
import importlib, json, sys
from pathlib import Path
from absl import flags
from launch import _cli

script, commands, added = json.load(sys.stdin)
importlib.import_module(f"launch.{script}")
for arguments in commands:
    flags.FLAGS.unparse_flags()
    _cli._parse([script, *arguments])
    named = (_cli.CONFIG.value or [""])[-1].partition(":")[0]
    if script == "slurm" or named and "--record_only" in arguments:
        importlib.import_module("launch._sweeps").planned()
    elif script in ("run", "sweep", "show") and named and named not in added:
        _cli.configured_points(sweep=script != "run")
"""


@pytest.mark.documents
def test_commands_have_flags_and_settings_that_exist(tmp_path):
    by_script, lines = {}, tmp_path / "many.txt"
    lines.write_text(blocks("docs/launching/slurm.md", "text")[0][1])
    for page in PAGES:
        for script, arguments in commands(page):
            arguments = [word.replace("many.txt", str(lines)) for word in arguments]
            if "--help" not in arguments:
                by_script.setdefault(script, []).append(arguments)
    assert {"run", "sweep", "report", "data", "benchmark"} <= set(by_script)
    added = [title for title in TITLES if title.startswith("configs/")]
    for script, found in by_script.items():
        result = subprocess.run(
            [sys.executable, "-c", _CHECK],
            input=json.dumps([script, found, added]),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, (script, found, result.stderr)


def anchors(page):
    """Returns the anchors of a page's headings."""
    prose = _BLOCK.sub("", PAGES[page])
    words = [re.sub(r"[^\w\s-]", "", h.lower()) for h in re.findall(r"^#+ (.+)$", prose, re.M)]
    return {re.sub(r"[\s]+", "-", heading.strip()) for heading in words}


def test_links_lead_somewhere():
    headings = functools.cache(anchors)
    for page, text in PAGES.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", _BLOCK.sub("", text)):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            linked = (ROOT / page).parent / path if path else ROOT / page
            assert linked.is_file(), (page, target)
            if anchor:
                place = str(linked.resolve().relative_to(ROOT))
                assert anchor in headings(place), (page, target)


# The packages that users import.
IMPORTED = (
    "lsa_jax.data",
    "lsa_jax.diagnosis",
    "lsa_jax.kernels",
    "lsa_jax.models",
    "lsa_jax.training",
)


@pytest.mark.documents
@pytest.mark.skipif(not shutil.which("mkdocs"), reason="needs pip install -e '.[docs]'")
def test_the_docs_build_without_a_warning_and_have_all_that_users_import(tmp_path):
    command = ["mkdocs", "build", "--strict", "--quiet", f"--site-dir={tmp_path}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    reference = "".join(page.read_text() for page in tmp_path.glob("api/*/index.html"))
    for name in IMPORTED:
        called = [
            public for public in importlib.import_module(name).__all__ if not public.isupper()
        ]
        missing = [p for p in called if not re.search(rf'id="{name}\.{p}[".]', reference)]
        assert not missing, name
