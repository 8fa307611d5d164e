"""Commands start with an allocator that takes large pages, and start themselves again only once."""

import os
import platform
import subprocess
import sys

import pytest

from launch._allocator import with_large_pages

GLIBC = ("glibc", "2.36")
COMMAND = ["-m", "launch.sweep", "--config=configs/quickstart.py"]
LARGE = "glibc.malloc.hugetlb"


@pytest.mark.parametrize(
    ("arguments", "tunables", "library", "expected"),
    [
        (COMMAND, "", GLIBC, f"{LARGE}=1"),
        (["-X", "utf8", *COMMAND], "glibc.a=1", ("glibc", "2.35"), f"glibc.a=1:{LARGE}=1"),
        (COMMAND, f"{LARGE}=0", GLIBC, None),
        (COMMAND, "", ("glibc", "2.34"), None),
        (COMMAND, "", ("", ""), None),
        (["-m", "pdb", "-m", "launch.sweep"], "", GLIBC, None),
        (["-c", "import launch"], "", GLIBC, None),
    ],
)
def test_only_a_command_without_the_setting_starts_again(arguments, tunables, library, expected):
    found = with_large_pages(arguments, {"A": "1", "GLIBC_TUNABLES": tunables}, library)
    assert found == (expected and {"A": "1", "GLIBC_TUNABLES": expected})


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_command_starts_itself_again_once_as_the_same_process(tmp_path):
    # Imported by every interpreter as it starts: its process, and its settings.
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nwith open(os.environ['WITNESS'], 'a') as file:\n"
        "    file.write(f\"{os.getpid()} {os.environ.get('GLIBC_TUNABLES', '-')}\\n\")\n"
    )
    witness = tmp_path / "witness"
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    paths = [str(tmp_path), os.getcwd(), environment.get("PYTHONPATH", "")]
    environment |= {"WITNESS": str(witness), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "launch.sweep"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "--config" in done.stderr
    (before, plain), (after, large) = map(str.split, witness.read_text().splitlines())
    assert (before, plain, large) == (after, "-", f"{LARGE}=1")
