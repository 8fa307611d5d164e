"""How many examples it takes: claims of N and of the theorems on it."""

import math

import numpy as np
import pandas as pd
import pytest
from resnet_rows import configure, row

from lsa_jax.experiments.resnet.hierarchical.sample_claims import sample_claims
from lsa_jax.reporting.claims import ONE_SEED


def samples(kernel, network, others=()):
    """Returns the claims on (seed, N, error) of a kernel and of the ResNet, of F times G."""
    rows = [*others]
    rows += [row("none", "gaussian", e, num_train=n, seed=s) for s, n, e in kernel]
    rows += [row("3resnet", "all", e, num_train=n, seed=s) for s, n, e in network]
    fields = {"sweep.limits": (("none", "gaussian"),), "sweep.series": (("3resnet", "all"),)}
    fields |= {"sweep.baselines": (), "sweep.seed": tuple(dict.fromkeys(s for s, *_ in network))}
    fields |= {"sweep.baseline_seed": tuple(dict.fromkeys(s for s, *_ in kernel))}
    fields |= {"sweep.num_train": tuple(dict.fromkeys(n for _, n, _ in network))}
    fields |= {"sweep.limit_num_train": tuple(dict.fromkeys(n for _, n, _ in kernel))}
    return sample_claims(configure(**fields), pd.DataFrame(rows))


def test_of_two_learners_that_get_there_the_one_with_fewer_examples_is_the_network():
    kernel = [(0, 100, 1.0), (0, 500, 0.68), (0, 1000, 0.67)]
    network = [(0, 100, 1.0), (0, 500, 0.67), (0, 1000, 0.01)]
    of_kernels, of_network = samples(kernel, network)
    assert (of_kernels.ours, of_network.ours, of_network.status) == ("1000", "500", "shown")
    as_many = [(0, 100, 1.0), (0, 500, 0.67)]
    assert samples(as_many, network)[1].status == "not shown"
    assert samples(network, kernel)[1].status == "not shown"


def test_seeds_that_differ_and_kernels_that_were_not_run_that_far_leave_it_undecided():
    kernel = [(0, 100, 1.0), (0, 500, 1.0)]
    assert samples(kernel, [(0, 500, 0.1), (1, 500, 0.11)])[1].status == "shown"
    differ = samples(kernel, [(0, 500, 0.01), (1, 500, 3.0)])[1]
    assert (differ.ours, differ.status) == ("not surely to N = 500", "undecided")
    short = samples(kernel[:1], [(0, 500, 0.1)])[1]
    assert (short.status, short.note) == ("undecided", "a kernel was run to N = 100 alone")
    short = samples([(0, 50, 1.0), (0, 100, 1.0)], [(0, 500, 0.1)])[1]
    assert short.note == "a kernel was run to N = 100 alone"
    # Below with 1,000; with 500, where the network is, it was not run.
    skipped = samples([(0, 100, 1.0), (0, 1000, 0.1)], [(0, 500, 0.1)])[1]
    assert skipped.status == "undecided"
    assert skipped.note == "at N = 1,000 in the place of 500 a kernel is not above the bound"
    failed = samples([(0, 100, 1.0), (0, 500, np.nan)], [(0, 500, 0.1)])[1]
    assert failed.status == "undecided"
    assert samples([(0, 100, 1.0), (0, 1000, 1.0)], [(0, 500, 0.1)])[1].status == "shown"
    between = samples([(0, 500, 0.6), (1, 500, 0.8)], [(0, 500, 0.1)])[1]
    assert between.status == "undecided" and between.note.startswith("at N = 500 it would take ")
    assert samples(kernel, [(0, 500, 0.68)])[1].status == "not shown"


def test_where_neither_gets_there_the_largest_number_of_examples_is_told():
    kernel, network = ([(0, n, 1.0) for n in sizes] for sizes in ((50, 400), (50, 300)))
    of_kernels, of_network = samples(kernel, network)
    assert (of_kernels.ours, of_network.ours) == (
        "not surely to N = 400",
        "not surely to N = 300",
    )
    assert of_network.status == "not shown"
    # Where an N or a seed failed what ran is told nevertheless.
    failed = samples([(0, 50, np.nan), *kernel[1:]], [(0, 50, np.nan), (0, 300, 0.1)])
    assert [claim.ours for claim in failed] == ["not surely to N = 400", "300"]
    lost = [(1, 50, np.nan)]
    failed = samples([(0, 50, 1.0), *lost], [(0, 50, 1.0), *lost])
    assert [claim.ours for claim in failed] == ["not surely to N = 50"] * 2


def of_two_kernels(sizes, others, *, task=None, errors=(1.0, 1.0), lost=()):
    """Returns the claims of one without a width and one with, each to an N of its own."""
    task = task or {}
    rows = [row("3resnet", "all", 1e-4, num_train=sizes[0], **task)]
    for key, asked, error in zip(
        (("none", "gaussian"), ("2layer", "ntk_exact")), (sizes, others), errors, strict=True
    ):
        width = np.nan if key[0] == "none" else 200
        ran = [n for n in asked if (*key, n) not in lost]
        rows += [row(*key, error, num_train=n, width=width, **task) for n in ran]
    fields = {"sweep.limits": (("none", "gaussian"),), "sweep.exact": (("2layer", "ntk_exact"),)}
    fields |= {"sweep.limit_num_train": sizes, "sweep.exact_num_train": others}
    fields |= {"sweep.series": (("3resnet", "all"),), "sweep.num_train": sizes[:1]}
    fields |= {"sweep.tasks": (tuple(task.values()),)} if task else {}
    fields |= {"sweep.exact_width": (200,), "sweep.baselines": ()}
    return sample_claims(configure(**fields), pd.DataFrame(rows))


def test_no_kernel_learns_to_no_more_examples_than_all_of_them_were_run_with():
    assert of_two_kernels((50, 400), (50, 800))[0].ours == "not surely to N = 400"
    assert of_two_kernels((50, 800), (50, 400))[0].ours == "not surely to N = 400"
    lost = [("2layer", "ntk_exact", 800)]
    assert of_two_kernels((50, 400), (20, 50, 800), lost=lost)[0].ours == "not surely to N = 50"
    assert of_two_kernels((50, 400), (50, 800), errors=(1.0, 0.1))[0].ours == "50"


def test_theorem_2_is_of_no_more_examples_than_all_kernels_were_run_with():
    """C(30, 4) / 1000 = 27: one kernel was run to 20."""
    task = {"d": 30, "base_degree": 1, "composite_degree": 4, "outputs": 4}
    found = of_two_kernels((10, 27), (10, 27), task=task)[0]
    assert (found.status, found.note) == ("shown", ONE_SEED) and "N to 27," in found.item
    for sizes in (((10, 20), (10, 27)), ((10, 27), (10, 20))):
        found = of_two_kernels(*sizes, task=task)[0]
        assert found.status == "undecided"
        assert found.note == f"kernels were run to N = 20 of 27; {ONE_SEED}"
        assert "N to 20," in found.item


def test_errors_that_are_not_finite_are_no_runs():
    kernel, network = [(0, 50, np.inf)], [(0, 50, 0.1)]
    assert [claim.status for claim in samples(kernel, network)] == ["not run"] * 2


def test_a_kernel_that_gets_there_refutes_whatever_its_larger_sizes_do():
    network = [(0, 100, 1.0), (0, 500, 0.1)]
    for errors, status in (
        ((0.1, 0.1, 9.0), "not shown"),
        ((0.1, 1.0, 1.0), "not shown"),
        ((1.0, 1.0, 0.1), "shown"),
    ):
        kernel = [(0, n, e) for n, e in zip((100, 500, 1000), errors, strict=True)]
        assert samples(kernel, network)[1].status == status


def test_sizes_may_come_in_any_order():
    """The least of those that leave it undecided is named."""
    kernel = [(seed, n, error) for n in (500, 100) for seed, error in enumerate((0.6, 0.8))]
    found = samples(kernel, [(0, 500, 0.1), (0, 100, 1.0)])[1]
    assert found.ours == "500" and found.note.startswith("at N = 100 it would take ")


def test_results_of_other_targets_have_no_part_in_the_claims_of_one():
    others = [
        row(net, learner, error, **{name: value})
        for net, learner, error in (("none", "gaussian", 1e-3), ("3resnet", "all", 9.0))
        for name, value in (("d", 31), ("base_degree", 1), ("composite_degree", 3), ("outputs", 8))
    ]
    found = samples([(0, 500, 1.0)], [(0, 500, 0.1)], others)
    assert [claim.ours for claim in found] == ["not surely to N = 500", "500"]
    assert found[1].status == "shown"


def of_theorem(d, sizes, error=1.0):
    """Returns the claims on linear F and one product of four of its outputs, of one kernel."""
    task = {"d": d, "base_degree": 1, "composite_degree": 4, "outputs": 4}
    rows = [row("none", "gaussian", error, num_train=size, **task) for size in sizes]
    fields = {"sweep.tasks": ((d, 1, 4, 4),), "sweep.limits": (("none", "gaussian"),)}
    fields |= {"sweep.num_train": sizes, "sweep.baselines": ()}
    return sample_claims(configure(**fields), pd.DataFrame(rows))


@pytest.mark.parametrize(("d", "most"), [(14, 1), (17, 2)])
def test_theorem_2_speaks_of_more_than_one_example(d, most):
    assert math.comb(d, 4) // 1000 == most
    found = of_theorem(d, (100,))
    assert len(found) == (2 if most == 1 else 5)


def test_items_of_theorem_2_name_the_examples_that_were_run_and_else_those_of_its_bound():
    assert math.comb(30, 4) // 1000 == 27
    ran, at_all = (of_theorem(30, sizes)[0] for sizes in ((10, 20, 28), (28,)))
    assert "N to 20," in ran.item
    assert at_all.status == "not run" and "N to 27," in at_all.item


def test_of_several_widths_and_sizes_theorem_3_has_to_do_with_the_largest():
    """C(30, 4) / 1000 = 27 features, and as many examples."""
    task = {"d": 30, "base_degree": 1, "composite_degree": 4, "outputs": 4}
    rows = [row("3resnet", "all", 1e-4, num_train=27, **task)]
    rows += [
        row("2layer", "last_exact", 1.0, num_train=size, width=width, **task)
        for size in (10, 27)
        for width in (9, 27)
    ]
    fields = {"sweep.tasks": ((30, 1, 4, 4),), "sweep.exact": (("2layer", "last_exact"),)}
    fields |= {"sweep.exact_width": (9, 27), "sweep.exact_num_train": (10, 27)}
    fields |= {"sweep.num_train": (27,), "sweep.baselines": ()}
    fields |= {"sweep.series": (("3resnet", "all"),)}
    found = sample_claims(configure(**fields), pd.DataFrame(rows))[1]
    assert (found.status, found.note) == ("shown", ONE_SEED)
    assert "to 27 of them, N to 27," in found.item
