"""What speaks against any claim: few test examples, and what becomes of a claim then."""

from lsa_jax.reporting.report import Claim

# With fewer, a number of test examples is not taken to be normal, and its interval is none.
FEWEST_EXAMPLES = 30


def few_examples(count: float) -> str:
    """Says whether test examples are too few to decide anything; empty if they are not."""
    return f"{count:g} test examples are too few" if count < FEWEST_EXAMPLES else ""


def undecided(claim: Claim, why: str, when: bool | None = None) -> Claim:
    """Returns a claim as undecided where there is something that speaks against it.

    What was not run, or is only measured, stays as it is.

    Args:
        claim: to be doubted.
        why: what speaks against it; empty if nothing does.
        when: whether to; None means where it is shown.
    """
    doubted = claim.status == "shown" if when is None else when
    if not why or not doubted or claim.status in ("not run", "measured"):
        return claim
    return claim._replace(status="undecided", note=why)
