import pytest


@pytest.fixture(autouse=True, scope="module")
def _compiled_quickly(quick_compilation):
    """Of all tests of models."""
