"""Metadata is in setup.cfg; here is what it cannot say: a description that stands by itself.

A package index shows the README away from the files that it links to, so links and pictures with
relative addresses are left out there.
"""

import re
from pathlib import Path

from setuptools import setup

_readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
_readme = re.sub(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n*", "", _readme)
_readme = re.sub(r"\[([^\]]*)\]\((?!https?://|#)[^)]*\)", r"\1", _readme)

setup(long_description=_readme)
