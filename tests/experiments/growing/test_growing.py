"""Sweeps of growing from end to end: one shallow network, many grown ones, resuming, stages."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax import backend
from lsa_jax.errors import InputError
from lsa_jax.experiments.growing import experiment, tasks
from lsa_jax.experiments.growing.objectives import make_objective
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.experiments.growing.stacking import stage_operators
from lsa_jax.experiments.growing.tasks import OBJECTIVE, make_loss, make_schedule
from lsa_jax.experiments.growing.text import Text
from lsa_jax.experiments.growing.transformer import Sizes, decoder
from lsa_jax.sweep.run import run_sweep
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training import segments

VOCABULARY_SIZE = 30_522

TINY = {
    "data.sources": ("a.txt",),
    "data.vocabulary_size": 280,
    "data.length": 8,
    "data.validation_windows": 8,
    "model.kind": "decoder",
    "model.width": 8,
    "model.heads": 2,
    "model.hidden": 8,
    "optimizer.learning_rate": 1e-2,
    "batch_size": 8,
    "layers": 2,
    "added": 1,
    "base_steps": 4,
    "grow_steps": 4,
    "dense_steps": 4,
    "lag_steps": 2,
    "checkpoint_every": 2,
    "downstream.tasks": ("last_word",),
    "downstream.answer_tokens": 3,
    "downstream.examples": 9,
    "max_replicas": 2,  # two parts of two operators: one program
    "sweep.kind": ("decoder",),
    "sweep.index": (0, 1),
    "sweep.block_size": (1,),
}


def _objective(config):
    return make_objective(OBJECTIVE[config.model.kind], config.data.length, VOCABULARY_SIZE)


def _bert(**fields):
    """Returns BERT-Base at full size, as in configs/growing/bert.py."""
    sizes = {"model.width": 768, "model.heads": 12, "model.hidden": 3072, "data.length": 512}
    whole = {"batch_size": 256, "layout": "batch", "layers": 12, "added": 4}
    return set_fields(
        SETTINGS.default_config(), sizes | whole | {"model.dtype": "bfloat16"} | fields
    )


@pytest.mark.parametrize(
    "memory, remat",
    [(16e9, True), (85e9, False)],  # of a TPU v5e and of an H100
)
def test_layers_are_computed_twice_only_where_memory_needs_it(memory, remat):
    config = _bert()
    with backend.built_for("tpu", memory=memory, count=4):
        assert tasks.choose_remat(config, VOCABULARY_SIZE, _objective(config)) is remat
    assert tasks.choose_remat(config, VOCABULARY_SIZE, _objective(config)) is False  # on CPUs


def test_training_that_does_not_fit_is_refused_with_its_size():
    for fields, named in (({"model.remat": False}, "remat=False"), ({"batch_size": 8192}, "=True")):
        config = _bert(**fields)
        with (
            backend.built_for("tpu", memory=16e9, count=4),
            pytest.raises(InputError, match=rf"config.batch_size is .* bytes with .*{named}"),
        ):
            tasks.choose_remat(config, VOCABULARY_SIZE, _objective(config))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("text")
    random = np.random.default_rng(0)
    words = ["growing", "deep", "networks", "from", "shallow", "ones"]
    (directory / "a.txt").write_text(
        "\n".join(" ".join(random.choice(words, 9)) for _ in range(999))
    )
    return directory


make = maker(SETTINGS, TINY)


@pytest.fixture(scope="module")
def grown(folder, tmp_path_factory):
    directory = tmp_path_factory.mktemp("growing") / "out"
    config, points = make()
    return directory, run_sweep(config, points, directory, data_dir=folder, command=["test"])


def test_operators_share_the_shallow_network_and_differ_once_grown(grown):
    directory, results = grown
    assert (results["status"] == "ok").all() and len(experiment.groups(make()[1])) == 1
    assert results["base_loss"].nunique() == 1 and results["initial_loss"].nunique() == 4
    assert (directory / "panels_decoder_constant.png").stat().st_size > 0
    claims = json.loads((directory / "report.json").read_text())
    assert results["downstream_last_word"].between(0, 1).all()
    assert results["items_last_word"].between(2, 9).all()
    assert "Percent right (decoder, constant rate)" in (directory / "report.md").read_text()
    # Four steps show that it starts, and nothing else.
    assert len(claims) == 10 and {claim["status"] for claim in claims} == {"not run"}
    assert {claim["note"] for claim in claims} == {"a check that it starts"}
    assert not list(directory.glob("groups/*/scratch"))


def test_a_run_that_died_goes_on_operator_by_operator(grown, folder, tmp_path, monkeypatch):
    _, points = make()
    data = experiment.EXPERIMENT.load(points, folder)
    save, saved = segments.checkpoints.save, []

    def save_and_die(directory, step, tree):
        save(directory, step, tree)
        saved.append((directory.name, step))
        if saved[-1] == ("part_002", 6):
            raise KeyboardInterrupt

    monkeypatch.setattr(segments.checkpoints, "save", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        experiment.run(points, data, tmp_path, lambda fraction: None)
    outcomes = experiment.run(points, data, tmp_path, lambda fraction: None)
    assert saved[-2:] == [("part_002", 6), ("part_002", 8)]
    for name in ("initial_loss", "lag_loss", "final_loss"):
        assert [o.metrics[name] for o in outcomes] == grown[1][name].tolist()


@pytest.mark.slow
def test_stages_grow_by_the_last_block_or_by_what_lag_chooses(folder, tmp_path):
    config, points = make(
        question="stacking", stage_steps=(4, 4), sweep__source=("copy",), downstream__tasks=()
    )
    results = run_sweep(config, points, tmp_path / "out", data_dir=folder, command=["test"])
    assert (results["status"] == "ok").all() and results["chosen"][0] == "i=1 b=1 copy"
    assert results["steps_spent"].tolist() == [8, 8 + 1 * 2]  # one candidate more, 2 steps
    assert Path(tmp_path / "out" / "stacking.png").stat().st_size > 0


@pytest.mark.parametrize("lag, window", [(0, 1), (200, 50), (500, 1), (550, 100), (1000, 1)])
def test_the_loss_is_measured_in_the_window_by_which_lag_decides(lag, window):
    fields = {"grow_steps": 3000, "dense_steps": 200, "dense_every": 1, "eval_every": 1000}
    fields |= {"lag_steps": lag, "lag_window": window}
    steps = experiment.measured_steps(set_fields(SETTINGS.default_config(), fields))
    inside = steps[(steps > lag - window) & (steps <= lag)]
    assert inside.tolist() == list(range(lag - window + 1, lag + 1))


def test_logits_window_by_window_change_neither_loss_nor_gradient():
    model = decoder(Sizes(vocabulary_size=20, length=6, width=8, heads=2, hidden=8, init_std=0.3))
    params = model.init(jax.random.key(0), 1)
    windows = jax.random.randint(jax.random.key(1), (3, 6), 10, 20)
    batch = make_objective("prefix", 6, 20)(jax.random.key(2), windows)
    found = [
        jax.jit(jax.value_and_grad(make_loss(model, remat), has_aux=True))(params, batch)
        for remat in (False, True)
    ]
    assert float(found[0][0][1]) == float(np.sum(batch.weights))
    pairs = zip(jax.tree.leaves(found[0]), jax.tree.leaves(found[1]), strict=True)
    for whole, parts in pairs:
        np.testing.assert_allclose(whole, parts, atol=1e-5)


def test_adaptive_stacking_of_bert_large_has_the_thesis_candidates():
    config = set_fields(
        SETTINGS.default_config(),
        {"layers": 4, "added": 4, "index_strides": (1, 1, 1, 2, 2), "sweep.block_size": (1, 2, 4)},
    )
    assert [len(stage_operators(config, stage)) for stage in range(1, 6)] == [3, 15, 27, 21, 27]


def test_schedules_are_those_of_the_thesis():
    rates = {"optimizer.warmup_steps": 10_000, "optimizer.learning_rate": 0.01}
    steps = {"base_steps": 300_000, "grow_steps": 100_000, "optimizer.schedule": "cosine"}
    ul2 = make_schedule(set_fields(SETTINGS.default_config(), rates | steps))
    assert [float(ul2(step)) for step in (5000, 10_000, 400_000)] == pytest.approx(
        [0.005, 0.01, 0.001], rel=1e-4
    )
    bert = make_schedule(set_fields(SETTINGS.default_config(), rates))
    assert float(bert(500_000)) == pytest.approx(0.01)
    for schedule in ("constant", "cosine"):
        fields = {"optimizer.warmup_steps": 0, "optimizer.schedule": schedule}
        at_once = make_schedule(set_fields(SETTINGS.default_config(), rates | fields))
        assert float(at_once(0)) == pytest.approx(0.01)


@pytest.mark.parametrize(
    "fields, match",
    [
        ({"index": 2}, "config.index is 2; accepted: at most layers - added = 1"),
        ({"added": 3}, "config.added is 3"),
        ({"data.shares": (0.5, 0.5)}, "config.data.shares"),
        ({"data.validation_windows": 9}, "multiples of the batch size 8"),
        ({"model.heads": 8}, "config.model.heads is 8"),
        ({"lag_steps": 5}, "config.lag_steps is 5"),
        ({"question": "stacking", "stage_steps": (4,)}, "two stages or more"),
        ({"question": "stacking", "stage_steps": ()}, r"stage_steps is \(\); .*two stages"),
        ({"question": "stacking", "index_strides": (1, 1)}, "one for each of the 1 later"),
    ],
)
def test_settings_that_do_not_fit_are_named(fields, match):
    with pytest.raises(InputError, match=match):
        SETTINGS.validate(set_fields(SETTINGS.default_config(), TINY | fields))


def test_no_validation_window_comes_twice():
    config = SETTINGS.default_config()
    held_out = np.zeros((config.data.validation_windows - 1, 4), np.int32)
    text = Text(held_out[:0], held_out, (), 9, None)
    with pytest.raises(InputError, match="validation_windows is .*; accepted: at most the .*held"):
        tasks._validation(config, text, None)
