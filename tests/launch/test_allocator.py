"""Commands start with an allocator that takes large pages, and start themselves again only once."""

import os
import platform
import subprocess
import sys

import pytest

from launch._allocator import with_large_pages

_GLIBC = ("glibc", "2.36")
_COMMAND = ["-m", "launch.sweep", "--config=configs/quickstart.py"]

# Imported by every interpreter as it starts; tells which process it is, and its settings.
_WITNESS = """
import os
with open(os.environ["WITNESS"], "a") as told:
    told.write(f"{os.getpid()} {os.environ.get('GLIBC_TUNABLES', '-')}\\n")
"""


def test_a_command_is_to_start_with_large_pages_beside_the_settings_that_it_has():
    assert with_large_pages(_COMMAND, {"A": "1"}, _GLIBC) == {
        "A": "1",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }
    given = {"GLIBC_TUNABLES": "glibc.malloc.perturb=1"}
    found = with_large_pages(["-X", "utf8", *_COMMAND], given, ("glibc", "2.35"))
    assert found == {"GLIBC_TUNABLES": "glibc.malloc.perturb=1:glibc.malloc.hugetlb=1"}


@pytest.mark.parametrize(
    ("arguments", "tunables", "library"),
    [
        (_COMMAND, "glibc.malloc.hugetlb=1", _GLIBC),
        (_COMMAND, "glibc.malloc.hugetlb=0", _GLIBC),
        (_COMMAND, "", ("glibc", "2.34")),
        (_COMMAND, "", ("", "")),
        (["-m", "pytest", "tests/launch"], "", _GLIBC),
        (["-m", "pdb", "-m", "launch.sweep"], "", _GLIBC),
        (["-c", "import launch"], "", _GLIBC),
        ([], "", _GLIBC),
    ],
)
def test_a_process_goes_on_as_it_is_where_it_is_no_command_or_has_chosen(
    arguments, tunables, library
):
    assert with_large_pages(arguments, {"GLIBC_TUNABLES": tunables}, library) is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_command_starts_itself_again_once_as_the_same_process(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(_WITNESS)
    told = tmp_path / "told"
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    paths = [str(tmp_path), os.getcwd(), environment.get("PYTHONPATH", "")]
    environment |= {"WITNESS": str(told), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-m", "launch.sweep"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2 and "--config" in done.stderr
    (before, plain), (after, large) = map(str.split, told.read_text().splitlines())
    assert (before, plain, large) == (after, "-", "glibc.malloc.hugetlb=1")
