"""Made-up runs of students, for tests of what is claimed of them."""

import pandas as pd


def injected_rows(tiny, gaussian):
    """Returns students of both kinds of injected inputs, with their accuracy there by seed."""
    rows = [
        {"injected": kind, "test_injected_part": value, "seed": seed}
        for kind, values in (("tiny_imagenet", tiny), ("gaussian", gaussian))
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows).assign(teacher_size=5, share=0.5, size=9)
