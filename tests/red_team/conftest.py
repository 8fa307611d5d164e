"""Made-up results go through every report: no claim in favour of a paper may read shown."""

import pytest


@pytest.fixture
def nothing_shown():
    """Returns a check that there are claims, and that none of them reads shown."""

    def check(claims):
        assert claims
        assert [claim.item for claim in claims if claim.status == "shown"] == []

    return check
