"""Every mistake costs one line that names it, exit status 2, and leaves nothing on disk."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags
from absl.testing import flagsaver

from launch import groups

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = "--config=configs/quickstart.py"
FIG4 = "--config=configs/lsa/fig4_cifar_vehicles.py"


def launch(script, *arguments, **environment):
    """Runs a launch script from the project's root."""
    return subprocess.run(
        [sys.executable, "-m", f"launch.{script}", *map(str, arguments)],
        cwd=ROOT,
        env={"PATH": "", "HOME": "/nonexistent", "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def launch_late(fork):
    """Runs a launch script that fails after it has imported JAX, without these imports."""

    def run(script, *arguments):
        environment = {"PATH": "", "HOME": "/nonexistent", "JAX_PLATFORMS": "cpu"}
        ended = fork(script, *arguments, environment=environment)
        return subprocess.CompletedProcess(arguments, *ended.wait())

    return run


def assert_refused(result, *words):
    assert result.returncode == 2, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0], lines[0]


SETTINGS = [
    # (arguments, what the line must hold)
    (["--config.nois=1"], ["config.nois", "config.noise"]),
    (["--config.data.zzzz=1"], ["config.data.zzzz", "config.data.dataset"]),
    (["--config.data=1"], ["config.data"]),
    (["--config.noise"], ["--config.noise", "=VALUE"]),
    (["--config.noise=-1"], ["config.noise", "'-1'", "0 or more"]),
    (["--config.noise=loud"], ["config.noise", "'loud'", "a number"]),
    (["--config.noise=nan"], ["config.noise"]),
    (["--config.seed=-1"], ["config.seed", "0 or more"]),
    (["--config.seed=1.5"], ["config.seed", "whole number"]),
    (["--config.seed=100000000000000000000"], ["config.seed", "below 2^31"]),
    (["--config.noise=1" + 400 * "0"], ["config.noise", "a number"]),
    (["--config.noise={[]: 1}"], ["config.noise", "'{[]: 1}'", "a number"]),
    (["--config.data.std_power=1.0"], ["config.data.std_power", "one of 1, 2"]),
    (["--config.data.std_power=True"], ["config.data.std_power", "one of 1, 2"]),
    (["--config.width_factor=0"], ["config.width_factor", "1 or more"]),
    (["--config.learner=kernel"], ["config.learner", "network", "ntk_infinite"]),
    (["--config.data.dataset=imagenet"], ["config.data.dataset", "cifar10"]),
    (["--config.data.task=cifar2"], ["config.data.task", "digits", "'all'"]),
    (["--config.data.image_size=17"], ["config.data.image_size", "17", "16"]),
    (["--config.data.image_size=0"], ["config.data.image_size", "1 or more"]),
    (["--config.data.placement=centre"], ["config.data.placement", "random_corner"]),
    (["--config.data.background=fog"], ["config.data.background", "photographs"]),
    (["--config.data.background=photographs"], ["config.data.photographs"]),
    (["--config.data.photographs=plants"], ["config.data.photographs", "'gaussian'", "None"]),
    (["--config.data.folder=mine"], ["config.data.folder", "'digits'", "None"]),
    (["--config.noise=0.5"], ["--config.noise is 0.5", '--config.sweep.noise="(0.5,)"']),
    (["--config.seed=0"], ["--config.seed is 0", '--config.sweep.seed="(0,)"', "launch.run"]),
    (["--config.data.background=none"], ["config.noise", "without a background"]),
    (["--config.data.copies=2", "--config.data.fresh_backgrounds=True"], ["config.data.copies"]),
    (["--config.data.fresh_backgrounds=True"], ["config.data.fresh_backgrounds", "fixed"]),
    (["--config.data.num_train=0"], ["config.data.num_train", "None or"]),
    (["--config.model.name=vit"], ["config.model.name", "wide_resnet"]),
    (["--config.model.channels=()"], ["config.model.channels", "each convolution"]),
    (["--config.model.channels=8"], ["config.model.channels", "a tuple"]),
    (["--config.model.name=wide_resnet"], ["config.learner", "no kernel"]),
    (["--config.model.depth=12"], ["config.model.depth", "6n + 4"]),
    (["--config.network.learning_rate=0"], ["config.network.learning_rate", "above 0"]),
    (["--config.network.epochs=0"], ["config.network.epochs", "1 or more"]),
    (["--config.network.optimizer=lion"], ["config.network.optimizer", "momentum"]),
    (["--config.network.loss=hinge"], ["config.network.loss", "squared_error"]),
    (["--config.network.schedule=steps", "--config.network.decay_epochs=()"], ["decay_epochs"]),
    (["--config.ntk_infinite.ridge=(-1.0,)"], ["config.ntk_infinite.ridge", "0 or more"]),
    (["--config.ntk_infinite.ridge=()"], ["config.ntk_infinite.ridge", "at least one"]),
    (["--config.ntk_finite.method=magic"], ["config.ntk_finite.method", "regression"]),
    (["--config.sweep.noise=()"], ["no points"]),
    (["--config.sweep.seed=0"], ["config.sweep.seed", '"(0,)"']),
    (["--config.sweep.seed=[0, 1]"], ["config.sweep.seed", '"(0, 1)"']),
    (["--config.sweep.learner=rfm"], ["config.sweep.learner", "\"('rfm',)\""]),
    (["--config.sweep.noise=(0.0, 0.0)"], ["twice"]),
    (["--config.sweep.learner=('network', 'svm')"], ["config.sweep.learner"]),
    (["--config.experiment=growing_grass"], ["config.experiment"]),
    (
        ["--config.data.background=photographs", "--config.data.photographs=plants"],
        ["config.data.dataset is 'digits'", "colours"],
    ),
    (
        ["--config.model.name=wide_resnet", "--config.model.norm=none"]
        + ["--config.model.pool_window=5"],
        ["config.model.pool_window is 5", "at most 4"],
    ),
    (["--config.kernel_memory=1"], ["config.kernel_memory", "1e+06"]),
    (["--wrkdir=x"], ["wrkdir", "workdir"]),
    (["now"], ["'now'", "flags"]),
]


@pytest.mark.parametrize(("arguments", "words"), SETTINGS, ids=lambda v: " ".join(v)[:60])
def test_a_wrong_setting_is_refused(tmp_path, arguments, words):
    workdir = tmp_path / "out"
    result = launch("sweep", QUICKSTART, f"--workdir={workdir}", *arguments)
    assert_refused(result, *words)
    assert not workdir.exists()


def test_a_sweeps_axis_is_refused_by_a_command_that_runs_one_point(tmp_path):
    workdir, axis = tmp_path / "out", "--config.sweep.seed=(1,)"
    assert_refused(launch("run", QUICKSTART, f"--workdir={workdir}", axis), axis, "launch.sweep")
    assert not workdir.exists()


def test_a_field_that_the_points_of_a_sweep_take_over_can_be_set():
    # Every point has a width, the configuration's own or one of sweep.ntk_width_factor.
    fields = ["--config.width_factor=2", "--config.sweep.ntk_width_factor=(4,)"]
    assert launch("show", QUICKSTART, *fields).returncode == 0


@pytest.mark.parametrize(
    ("script", "flag"),
    [("watch", "--every=nan"), ("watch", "--every=inf"), ("preflight", "--efficiency=nan")],
)
def test_a_flag_that_is_no_finite_number_is_refused(script, flag):
    name, _, value = flag.partition("=")
    assert_refused(launch(script, flag), f"{name} is {value}", "finite")


CONFIGS = [
    ("--config=configs/quickstart.py:huge", ["'huge'", "full", "quick"]),
    ("--config=configs/nosuch.py", ["nosuch.py", "does not exist"]),
    ("--config=LICENSE", ["LICENSE", "Python file"]),
    ("--config=setup.cfg", ["setup.cfg", "Python file"]),
    ("--config=lsa_jax/errors.py", ["no get_config"]),
    ("--config=", ["--config is missing"]),
    ("--config=configs/lsa", ["'configs/lsa', a folder", "a Python file"]),
]


@pytest.mark.parametrize(("config", "words"), CONFIGS)
def test_a_wrong_configuration_file_is_refused(tmp_path, config, words):
    result = launch("sweep", config, f"--workdir={tmp_path / 'out'}")
    assert_refused(result, *words)
    assert not (tmp_path / "out").exists()


def test_a_configuration_file_that_fails_is_named_with_its_error(tmp_path):
    (tmp_path / "mine.py").write_text("import nothing_of_this_name\n")
    result = launch("sweep", f"--config={tmp_path / 'mine.py'}", f"--workdir={tmp_path / 'out'}")
    assert_refused(result, "mine.py", "ModuleNotFoundError")


@pytest.mark.parametrize(
    ("body", "variant", "words"),
    [
        ("def get_config(): return None", "", ["returns None", "default_config()"]),
        ("def get_config(): return None", ":small", ["with the variant 'small'", "argument"]),
        ("def get_config(variant): return None", "", ["without a variant", "'variant'"]),
        ("def get_config(): return {}['seed']", "", ["KeyError", "'seed'"]),
        ("def get_config(): raise SystemExit('no')", "", ["SystemExit", "no"]),
        ("get_config = 1", "", ["no get_config"]),
    ],
)
def test_a_function_that_gives_no_configuration_is_refused(tmp_path, body, variant, words):
    (tmp_path / "mine.py").write_text(f"{body}\n")
    config = f"--config={tmp_path / 'mine.py'}{variant}"
    result = launch("sweep", config, f"--workdir={tmp_path / 'out'}")
    assert_refused(result, "mine.py", *words)


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("preflight", ["--topology=cpu", "--json=.", QUICKSTART]),
        ("benchmark", ["--suite=kernels", "--json=."]),
        ("watch", ["--html=.", "--workdir=."]),
        ("synsets", ["--data_noun=LICENSE", "--output=."]),
    ],
)
def test_a_folder_where_a_file_is_to_be_written_is_refused(script, flags):
    assert_refused(launch(script, *flags), "is '.'; accepted: a file in a folder that exists")


def test_a_missing_workdir_is_refused():
    assert_refused(launch("sweep", QUICKSTART), "--workdir is missing")


@pytest.mark.parametrize(("variable", "words"), [("flag", "--data_dir"), ("env", "LSA_DATA_DIR")])
def test_a_data_folder_that_does_not_exist_is_refused(tmp_path, variable, words):
    given = str(tmp_path / "nowhere")
    flag = [f"--data_dir={given}"] if variable == "flag" else []
    environment = {"LSA_DATA_DIR": given} if variable == "env" else {}
    result = launch("sweep", QUICKSTART, f"--workdir={tmp_path / 'out'}", *flag, **environment)
    assert_refused(result, words, "nowhere")
    assert not (tmp_path / "out").exists()


def test_an_intensity_above_one_is_refused(tmp_path):
    result = launch("run", FIG4, f"--workdir={tmp_path / 'out'}", "--config.noise=1.5")
    assert_refused(result, "config.noise", "0 to 1")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("data.background_size=40", ["config.data.background_size", "32"]),
        ("data.placement=random_location", ["config.data.placement", "corner"]),
        ("data.task=all", ["config.data.task", "'vehicles'"]),
    ],
)
def test_distractors_need_their_grid(tmp_path, field, words):
    result = launch("run", FIG4, f"--workdir={tmp_path / 'out'}", f"--config.{field}")
    assert_refused(result, *words)


def test_missing_data_are_named_with_the_command_that_fetches_them(launch_late, tmp_path):
    data, workdir = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    result = launch_late(
        "run", "--config=configs/lsa/fig6_mnist.py", f"--workdir={workdir}", f"--data_dir={data}"
    )
    # launch.reproduce tells missing data from other mistakes by these words.
    assert_refused(result, f"error: missing data: {data}", "launch.data --dataset=mnist")
    assert not workdir.exists()


@pytest.mark.parametrize(
    ("below", "config", "words"),
    [
        ("", "own_images.py:quick --config.data.folder=cats", ["did you mean Cats?"]),
        ("", "own_images.py:quick --config.data.folder=Cat", ["did you mean Cats?"]),
        ("/Cats", "own_images.py:quick --config.data.folder=Cats", ["--data_dir={data}"]),
        ("/Cats/tom", "own_images.py:quick --config.data.folder=Cats", ["--data_dir={data}"]),
        ("/Cats", "own_images.py:quick", ["--data_dir={data}", "folder Cats"]),
        ("/mnist", "lsa/fig6_mnist.py:quick", ["--data_dir={data}"]),
        ("/cifar-10-batches-bin", "lsa/fig2_sparsity.py:quick", ["--data_dir={data}"]),
        ("/../apart", "lsa/fig6_mnist.py:quick", ["in a folder mnist"]),
        ("/Cats", "lsa/fig4_cifar2_photographs.py --config.data.photographs=Cats", ["{data}"]),
    ],
)
def test_a_data_folder_beside_the_right_one_is_named(launch_late, tmp_path, below, config, words):
    data, workdir = tmp_path / "data", tmp_path / "out"
    for name in (
        "mnist/train-images-idx3-ubyte",
        "../apart/train-images-idx3-ubyte",
        "Cats/tom/0.png",
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"x")
    (data / "cifar-10-batches-bin").mkdir()
    (data / "Cats/tim").mkdir()
    (data / "Cats/tim/0.png").write_bytes(b"x")
    name, *fields = config.split()
    result = launch_late(
        "sweep",
        f"--config=configs/{name}",
        *fields,
        f"--workdir={workdir}",
        f"--data_dir={data}{below}",
    )
    assert_refused(result, *(word.format(data=data) for word in words))
    assert not workdir.exists()


def test_damaged_data_are_named_and_nothing_is_written(launch_late, tmp_path):
    data, workdir = tmp_path / "data", tmp_path / "out"
    (data / "mnist").mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (data / "mnist" / f"{name}-ubyte").write_bytes(b"\0\0\x08\x07" + bytes(60))
    result = launch_late(
        "run", "--config=configs/lsa/fig6_mnist.py", f"--workdir={workdir}", f"--data_dir={data}"
    )
    assert_refused(result, "train-images-idx3-ubyte", "magic")
    assert not workdir.exists()


def test_more_examples_than_there_are_is_refused(launch_late, tmp_path):
    workdir = tmp_path / "out"
    result = launch_late("run", QUICKSTART, f"--workdir={workdir}", "--config.data.num_train=99999")
    assert_refused(result, "num_train", "99999")
    assert not workdir.exists()


def test_a_folder_of_something_else_is_refused(launch_late, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    assert_refused(launch_late("sweep", QUICKSTART, f"--workdir={tmp_path}"), "no config.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_as_workdir_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert_refused(launch("sweep", QUICKSTART, f"--workdir={tmp_path / 'file'}"), "is a file")


def test_a_workdir_that_cannot_be_written_is_refused(launch_late, tmp_path):
    (tmp_path / "file").write_text("")
    result = launch_late("sweep", QUICKSTART, f"--workdir={tmp_path / 'file' / 'below'}")
    assert_refused(result, "below")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"config": {"experiment": "x"}}'])
def test_a_report_on_a_damaged_record_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    assert_refused(launch("report", f"--workdir={tmp_path}"), "config.json")


def test_a_report_on_nothing_is_refused(tmp_path):
    for workdir, reason in ((tmp_path, "No such file"), (ROOT / "LICENSE", "Not a directory")):
        assert_refused(
            launch("report", f"--workdir={workdir}"), f"config.json cannot be read: {reason}"
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--groups is missing", "--groups=0,3"]),
        (["--groups=0,x"], ["--groups is '0,x'", "numbers from 0"]),
        (["--groups=-1"], ["--groups is '-1'"]),
        (["--groups=0"], ["config.json cannot be read", "No such file"]),
    ],
)
def test_groups_of_no_sweep_are_refused(tmp_path, arguments, words):
    assert_refused(launch("groups", f"--workdir={tmp_path}", *arguments), *words)
    assert not list(tmp_path.iterdir())


def test_a_group_that_is_given_twice_is_run_once():
    flags.FLAGS.mark_as_parsed()
    with flagsaver.flagsaver(groups=["0", "3", "00"]):
        assert groups._numbers() == [0, 3]


@pytest.mark.parametrize(
    ("script", "flag"),
    [
        *(
            (name, "--config.noise=2")
            for name in ("report", "groups", "data", "synsets", "list", "watch")
        ),
        *((name, QUICKSTART) for name in ("reproduce", "benchmark")),
    ],
)
def test_a_configuration_that_a_command_would_ignore_is_refused(script, flag):
    assert_refused(launch(script, flag), f"error: {flag} is given to a command that reads no")


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_log_without_its_library_is_refused(tmp_path):
    result = launch("run", QUICKSTART, f"--workdir={tmp_path / 'out'}", "--wandb=digits")
    assert_refused(result, "--wandb=digits needs wandb", "pip install wandb")


def test_help_shows_worked_commands():
    result = launch("sweep", "--help")
    assert "python -m launch.sweep --config=configs/quickstart.py" in result.stdout
