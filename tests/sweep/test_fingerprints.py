"""A fingerprint changes with settings and with what a report says, and with nothing else."""

import shutil
from pathlib import Path

import pytest

from lsa_jax.experiments.lsa.lemmas import settings
from lsa_jax.sweep import fingerprints

SOURCE = '''"""A module."""

RATE = 0.5  # of learning


def twice(x):
    """Returns twice as much.

    Of one number.
    """
    # a remark
    for _ in range(3):
        x = x + 1
    return f"{2 * x:.1f} # {RATE}"
'''

CONFIG = """
from lsa_jax.experiments.lsa.lemmas import settings
from lsa_jax.sweep.variants import choose

def get_config(variant="full"):
    config = settings.default_config()
    config.d = {d}
    return choose(config, variant, {{"small": {{"sweep.k": (64, 256)}}}})
"""


def test_comments_docstrings_and_layout_are_no_code():
    other = SOURCE.replace("# of learning", "").replace("A module.", "The\nmodule.")
    other = other.replace("Of one number.", "").replace("# a remark", "#")
    other = other.replace("(x)", "(\n    x\n)").replace("RATE = 0.5", "RATE  =  0.5")
    assert fingerprints.code(other) == fingerprints.code(SOURCE)
    wider = SOURCE.replace("\n    ", "\n      ").replace("        x = x", "          x = x")
    assert fingerprints.code(wider) == fingerprints.code(SOURCE)
    without = SOURCE.replace(SOURCE[SOURCE.index('    """Returns') : SOURCE.index("    # a")], "")
    assert fingerprints.code(without) == fingerprints.code(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.5", "0.6"),
        ("2 * x", "2 + x"),
        ("} #", "} ##"),
        ("} #", "}  #"),  # a blank in what is printed
        ("    return", "        return"),  # inside the loop
        ("x + 1", "x+ +1"),
    ],
)
def test_a_change_of_code_is_one(old, new):
    assert SOURCE.count(old) == 1
    assert fingerprints.code(SOURCE.replace(old, new)) != fingerprints.code(SOURCE)


def test_code_is_the_same_text_where_f_strings_come_in_parts():
    """As they do from Python 3.12 on, nested ones too."""
    nested = 'x = f"a {b!r:>{c}} {{d}}" + f\'{f"{e} f"}  g\'\n'
    assert fingerprints.code(nested) == ('x = f"a {b!r:>{c}} {{d}}" + f\'{f"{e} f"}  g\' \n')


def test_a_report_is_made_by_the_modules_that_it_imports_and_not_by_those_that_run_it():
    room = Path("lsa_jax/experiments")
    found = fingerprints.report_modules("lsa/noise_curves")
    own = {path.name for path in found if path.parent == room / "lsa/noise_curves"}
    assert {"report.py", "claims.py", "verdict.py", "learning_curves.py"} <= own
    assert "experiment.py" not in own and "tasks.py" not in own
    assert room / "lsa/numbers.py" in found and Path("lsa_jax/reporting/claims.py") in found
    extensions = fingerprints.report_modules("lsa/signal_dynamics")
    assert room / "lsa/signal_dynamics/extensions_report.py" in extensions
    # An experiment whose report stands in the module that runs it.
    images = fingerprints.report_modules("lsa/image_examples")
    assert room / "lsa/image_examples/experiment.py" in images


@pytest.fixture
def published(tmp_path):
    """Returns a configuration, and the fingerprint of its small size."""
    path = tmp_path / "a.py"
    path.write_text(CONFIG.format(d=4))
    return path, fingerprints.now(f"{path}:small")


def test_nothing_has_changed_where_nothing_has(published):
    path, fingerprint = published
    assert fingerprints.changed(f"{path}:small", fingerprint) == []


def test_another_value_another_size_and_a_file_that_is_gone_are_changes(published):
    path, fingerprint = published
    assert fingerprints.changed(str(path), fingerprint) == ["the setting sweep.k"]
    # Of another length: Python takes a file of the same second and length for the compiled one.
    path.write_text(CONFIG.format(d=50))
    assert fingerprints.changed(f"{path}:small", fingerprint) == ["the setting d"]
    path.unlink()
    assert fingerprints.changed(f"{path}:small", fingerprint) == ["the configuration is gone"]


def test_a_setting_that_is_new_is_a_change_only_off_its_default(published):
    path, fingerprint = published
    del fingerprint["settings"]["d"]  # as before it was there; 4 is not its default
    assert fingerprints.changed(f"{path}:small", fingerprint) == ["the setting d"]
    default = settings.default_config().d
    path.write_text(CONFIG.format(d=default))
    assert default != 4 and fingerprints.changed(f"{path}:small", fingerprint) == []
    fingerprint["settings"]["gone"] = 1
    assert fingerprints.changed(f"{path}:small", fingerprint) == ["the setting gone"]


def test_other_points_of_the_same_settings_are_a_change(published):
    path, fingerprint = published
    fingerprint["points"] = ""
    assert fingerprints.changed(f"{path}:small", fingerprint) == ["the points of the sweep"]


def test_another_rule_of_claims_is_a_change_of_the_report(published, tmp_path, monkeypatch):
    path, fingerprint = published
    for module in fingerprints.report_modules("lsa/lemmas"):
        (tmp_path / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(fingerprints._ROOT / module, tmp_path / module)
    home = Path("lsa_jax/experiments/lsa/lemmas/experiment.py")
    shutil.copy(fingerprints._ROOT / home, tmp_path / home)
    monkeypatch.setattr(fingerprints, "_ROOT", tmp_path)
    assert fingerprints.changed(f"{path}:small", fingerprint) == []
    with open(tmp_path / home, "a") as file:
        file.write("STEPS = 3\n")  # of what runs it
    assert fingerprints.changed(f"{path}:small", fingerprint) == []
    with open(tmp_path / "lsa_jax/reporting/claims.py", "a") as file:
        file.write("LEVEL = 0.9\n")
    assert fingerprints.changed(f"{path}:small", fingerprint) == ["the code of the report"]
