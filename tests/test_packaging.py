"""One version everywhere, and distributions that an index takes and that can be tested."""

import email
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import lsa_jax

ROOT = Path(__file__).resolve().parents[1]

# The distributed folders; a checkout may hold others.
SENT = (
    "benchmarks",
    "configs",
    "docs",
    "launch",
    "lsa_jax",
    "notebooks",
    "tests",
    ".ci",
    ".github",
)


def test_citation_and_changelog_have_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [lsa_jax.__version__]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [heading for heading in headings if heading != "Unreleased"]
    assert released[:1] in ([], [lsa_jax.__version__])


def files_below(folder, pattern="*"):
    return {
        str(path.relative_to(folder))
        for path in folder.rglob(pattern)
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Returns a copy of the checkout, as a build writes into it, and its distributions."""
    pytest.importorskip("build")
    directory = tmp_path_factory.mktemp("packaging")
    copy = directory / "checkout"
    for name in SENT:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, copy)
    options = ["--no-isolation", f"--outdir={directory / 'dist'}", str(copy)]
    subprocess.run([sys.executable, "-m", "build", *options], cwd=directory, check=True)
    (sdist,), (wheel,) = ((directory / "dist").glob(kind) for kind in ("*.tar.gz", "*.whl"))
    return copy, sdist, wheel


@pytest.mark.slow
def test_the_wheel_is_the_package_with_its_data_and_stands_by_itself(built):
    copy, _, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        description = email.message_from_bytes(archive.read(metadata)).get_payload()
    package = files_below(copy / "lsa_jax", "*.py") | files_below(copy / "lsa_jax", "*.txt")
    package |= files_below(copy / "lsa_jax", "templates/*")
    assert names == {f"lsa_jax/{name}" for name in package}
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert "# lsa_jax" in description
    assert [link for link in links if not link.startswith(("http://", "https://", "#"))] == []


@pytest.mark.slow
def test_the_source_distribution_has_all_that_its_tests_read(built):
    copy, sdist, _ = built
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = {f"{folder}/{name}" for folder in SENT for name in files_below(copy / folder)} - names
    assert not missing
    assert {"README.md", "CHANGELOG.md", "CITATION.cff", "mkdocs.yml", "LICENSE"} <= names
