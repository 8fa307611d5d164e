"""Commands start themselves again with an allocator that takes large pages, only once."""

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
