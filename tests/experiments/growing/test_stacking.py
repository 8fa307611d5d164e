"""Growing in stages: which steps each stage takes, what counts as final, and what it all costs."""

import pytest

from lsa_jax.experiments.growing import settings, stacking
from lsa_jax.experiments.growing.tasks import GrowingTask
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.growth import Operator
from lsa_jax.training.steps import NetworkState

NOTHING = NetworkState({}, {})


def configure(**fields):
    small = {"question": "stacking", "stage_steps": (10, 20, 30), "layers": 2, "added": 1}
    small |= {"index_strides": (1, 2), "eval_every": 8, "final_share": 0.5, "lag_steps": 3}
    dotted = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(settings.default_config(), small | {"sweep.block_size": (1,)} | dotted)


@pytest.fixture
def stages(monkeypatch):
    """Puts stages in place whose loss at a step is the step; returns what they were asked for."""
    seen = []

    def train(config, task, state, span, directory):
        seen.append((span, directory.name))
        steps = stacking._measured(config, *span).tolist()
        return stacking._Stage(NOTHING, [{"step": s, "loss": float(s)} for s in steps], [], None)

    def begin(config, task, state, stage, start, directory):
        taken = 0 if config.strategy == "last" else config.lag_steps
        return NOTHING, Operator(stage, 1, "copy"), taken

    monkeypatch.setattr(stacking, "_train_stage", train)
    monkeypatch.setattr(stacking, "_begin_stage", begin)
    return seen


def test_a_stage_is_measured_now_and_then_and_at_its_end():
    assert stacking._measured(configure(), 10, 30).tolist() == [10, 18, 26, 30]
    assert stacking._measured(configure(), 0, 8).tolist() == [0, 8]


@pytest.mark.parametrize(
    ("strategy", "spans", "spent"),
    [
        ("last", [(10, 30), (30, 60)], 60),
        # LAG's 3 steps of 2 operators, then of 2 (every other of 3 places): the chosen ones count
        # once, as the stage goes on from them.
        ("adaptive", [(13, 30), (33, 60)], 60 + 3 * (2 + 2) - 3 * 2),
    ],
)
def test_stages_follow_each_other_and_the_last_ones_end_is_final(
    stages, tmp_path, strategy, spans, spent
):
    config, told = configure(strategy=strategy), []
    first = stacking._Stage(NOTHING, [{"step": 0, "loss": 9.0}], [], None)
    task = GrowingTask(*[None] * len(GrowingTask._fields))
    found = stacking._stack(config, task, first, tmp_path, told.append)
    assert [span for span, _ in stages] == spans and told == [0.5, 1.0]
    assert found.metrics["steps_spent"] == spent
    assert found.metrics["chosen"] == "i=1 b=1 copy; i=2 b=1 copy"
    assert [row["stage"] for row in found.history[:2]] == [0, 1]
    assert {row["stage"] for row in found.history if row["step"] > 40} == {2}
    # Half of the last stage's 30 steps.
    last = [s for s in stacking._measured(config, *spans[-1]) if s >= 45]
    assert found.metrics["final_loss"] == pytest.approx(sum(last) / len(last))


def test_candidates_are_all_copies_at_every_so_many_places_of_the_layers_there_are():
    config = configure()
    assert [op.index for op in stacking.stage_operators(config, 1)] == [0, 1]
    assert [op.index for op in stacking.stage_operators(config, 2)] == [0, 2]  # of 3 layers
    assert {op.source for op in stacking.stage_operators(config, 2)} == {"copy"}
