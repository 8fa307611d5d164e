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
