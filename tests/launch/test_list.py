"""launch.list and launch.show print configurations."""

import re


def test_a_list_has_item_cost_data_and_status(launch):
    result = launch("list", "--paper=resnet", "--under=1h", "--data=none")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    place = lines.index("configs/resnet/fig3b.py")
    assert lines[place + 1].startswith("  Figure 3 (b), Allen-Zhu and Li 2019: hidden layers")
    size = r"full at least \d+ min \d+ s on 1 core data: none \d+ of 4 claims hold"
    assert re.match(size, " ".join(lines[place + 2].split()))
    assert ":quick" not in result.stdout
    sizes = [line for line in lines if line.startswith("    ")]
    assert lines[-1].endswith(f"of 10 configurations, in {len(sizes)} sizes")


def test_a_configuration_is_shown_with_values_meanings_and_defaults(launch):
    config = "--config=configs/lsa/fig6_mnist.py:small"
    fields = ("--config.data.copies=2", "--fields=noise,seed,data,ntk_finite")
    found = launch("show", config, *fields).stdout
    for line in (
        "experiment lsa/noise_curves, 48 runs\ndata: mnist\n",
        "  noise = 0.0  swept: 0.0, 1.0, 2.0\n",
        "* data.copies = 2  (default 1)\n",
        "  seed = 0  swept: 0, 1, 2, 3\n",
        "* data.dataset = 'mnist'  (default 'digits')\n      source of",
        "accepted: a whole number, 0 or more",
    ):
        assert line in found
    assert "width_factor" not in found
    changed = launch("show", config, *fields, "--changed").stdout
    starred = [line for line in found.splitlines() if line.startswith("* ")]
    assert starred == [line for line in changed.splitlines() if " = " in line]
