"""Every configuration offers its variants, and its docstring gives the command and no results."""

import re
from pathlib import Path

import pytest

from lsa_jax.errors import InputError
from lsa_jax.sweep import config_files

ROOT = Path(__file__).resolve().parents[1]
PATHS = sorted((ROOT / "configs").rglob("*.py"))
_RESULTS = r"±|\+-|\bcame out\b|processor time|\d (s|min|minutes) (on|of|in)\b|^(Result|Cost)\b"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_configuration_has_its_command_and_refuses_unknown_variants(path):
    module = config_files.load(path)
    assert f"python -m launch.sweep --config={path.relative_to(ROOT)}" in module.__doc__
    assert not re.search(_RESULTS, module.__doc__, re.M)  # the gallery has them
    with pytest.raises(InputError, match="full, small, quick"):
        module.get_config("huge")
