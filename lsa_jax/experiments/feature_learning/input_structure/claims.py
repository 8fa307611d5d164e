"""Claims on students of real and injected inputs: figures 22 to 25.

Source: Shi, Wei and Liang (ICLR 2022), appendix E.5.
"""

import dataclasses
import itertools
import math

import ml_collections

from lsa_jax.experiments.feature_learning.input_structure.sizes import choice_claims, size_claims
from lsa_jax.experiments.feature_learning.input_structure.tasks import mixture_parts
from lsa_jax.reporting.claims import Claim, above_chance, shown
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, minus

# A student's accuracy on the labelled part may be this many points below that of direct training.
AS_GOOD = 2.0
# Of students FC(9) on MNIST "the results do not show a significant trend" (appendix E.5.2).
NO_TREND = {"mnist": (9,)}
# Sizes of the paper's teachers: claims on them at a share of a half are primary.
TEACHERS = {"mnist": 9, "cifar10": 5, "svhn": 2, "digits": None}

# The size that stands for each seed's teacher of algorithm 1: `report` adds its students' runs.
CHOSEN = 0
_TEST_IMAGES = {"mnist": 10_000, "cifar10": 10_000, "svhn": 26_032, "digits": 360}

Panel = dict[str, object]


def make_claims(config: ml_collections.ConfigDict, *, chosen: bool = False) -> list[Claim]:
    """Returns the claims of a sweep.

    Args:
        config: of the sweep.
        chosen: whether the runs have students of the teachers that algorithm 1 chose.
    """
    if {*config.sweep.share} <= {1.0}:
        return size_claims(config)
    mixed = [own for own in panels(config) if 0 < own["share"] < 1]
    first = [own for own in mixed if own["teacher_size"] == config.sweep.teacher_size[0]]
    by_seed = [own | {"teacher_size": CHOSEN} for own in first * chosen]
    claims = [claim for own in mixed + by_seed for claim in _panel_claims(config, own)]
    for own in mixed:
        if own["size"] == max(config.sweep.size) > min(config.sweep.size):
            claims.append(_size_gap_claim(config, own))
        if own["injected"] == "tiny_imagenet" and "gaussian" in config.sweep.injected:
            claims.append(_kind_claim(config, own))
    return claims + choice_claims(config)


def num_test(config: ml_collections.ConfigDict) -> int:
    """Returns the number of labelled test images."""
    return config.data.num_test or _TEST_IMAGES[config.data.dataset]


def panels(config: ml_collections.ConfigDict) -> list[Panel]:
    """Returns the settings of students that are alike: the panels of figures 22 to 25."""
    axes = config.sweep
    names = ("injected", "teacher_size", "share", "size")
    kinds = axes.injected or (config.data.injected,)
    found = itertools.product(kinds, axes.teacher_size, axes.share, axes.size)
    return [{"learner": "student"} | dict(zip(names, own, strict=True)) for own in found]


def panel_name(config: ml_collections.ConfigDict, own: Panel) -> str:
    """Returns a panel's name; it contains the kind of injected inputs where there are several."""
    teacher = f"teacher {own['teacher_size']}"
    if own["teacher_size"] == CHOSEN:
        teacher = "teachers by algorithm 1"
    return f"{teacher}, student {own['size']}, {_share_words(config, own)}"


def _share_words(config: ml_collections.ConfigDict, own: Panel) -> str:
    kind = f", {own['injected']}" if len(config.sweep.injected) > 1 else ""
    return f"share {own['share']:g}{kind}"


def _accuracy(
    config: ml_collections.ConfigDict, own: Panel, column: str = "test_accuracy"
) -> Statistic:
    """Returns a student's accuracy on the mixture, or on a part of it, with its test inputs."""
    labelled, injected = mixture_parts(own["share"], num_test(config))
    counts = {"labelled": labelled, "injected": injected, "accuracy": labelled + injected}
    count = counts[column.split("_")[1]]
    return lambda runs: accuracy(column, **own)(runs.assign(num_test=count))


def _gap(words: str, paper: str, first: Statistic, second: Statistic, **options: object) -> Claim:
    """Returns the claim that one accuracy exceeds another, by more than 0 unless `above` is set."""
    options = {"above": 0.0} | options
    item = f"points of test accuracy, {words}"
    return Claim(item=item, paper=paper, statistic=minus(first, second), digits=2, **options)


def _worse(config: ml_collections.ConfigDict, own: Panel) -> Claim:
    """Returns the claim that a student is worse on the injected part, if all learn their labels.

    Direct training learns the labels of the data set; the student learns its teacher's labels.
    Chance is the share of the largest class in either.
    """
    papers = own["teacher_size"] == TEACHERS[config.data.dataset] and own["share"] == 0.5
    part = {"column": "test_labelled_part", "chance": "largest_label"}
    return _gap(
        f"labelled minus injected part at the end, {panel_name(config, own)}",
        "above 0: worse",
        _accuracy(config, own, "test_labelled_part"),
        _accuracy(config, own, "test_injected_part"),
        conditions=(
            above_chance("direct training", classes=10, learner="direct", size=own["size"]),
            above_chance("the teacher", classes=10, column="teacher_accuracy", **own),
            above_chance("the student", classes=10, **part, **own),
        ),
        primary=papers and own["injected"] == "gaussian",
    )


def _panel_claims(config: ml_collections.ConfigDict, own: Panel) -> list[Claim]:
    """Returns the claims of one panel of figures 22 and 23.

    Comparisons with direct training need a student that is worse on the injected part. Above a
    share of a half direct training and the control, which learns the teacher's labels alone, have
    more labelled images than the student: differences are only measured.
    """
    worse, name = _worse(config, own), panel_name(config, own)
    labelled, alone = (
        _accuracy(config, of, "test_labelled_part") for of in (own, own | {"share": 0.0})
    )
    direct, whole = accuracy(learner="direct", size=own["size"]), _accuracy(config, own)
    as_good = f"not below by more than {AS_GOOD:g}"
    parts = {"conditions": (shown(worse, "the injected part is worse"),)}
    near = {"above": -AS_GOOD} | parts
    slower = _gap(
        f"labelled minus injected part, mean over training, {name}",
        "above 0: slower",
        _accuracy(config, own, "course_labelled_part"),
        _accuracy(config, own, "course_injected_part"),
        **parts,
    )
    same = f"labelled part minus the same labels alone, {name}"
    others = [
        _gap(f"labelled part minus direct training, {name}", as_good, labelled, direct, **near),
        _gap(same, as_good, labelled, alone, **near),
        _gap(f"direct training minus whole mixture, {name}", "above 0", direct, whole, **parts),
    ]
    if own["share"] > 0.5:
        others = _only_measured(others, "the student has fewer labelled images")
    claims = [worse, slower, *others]
    if own["size"] in NO_TREND.get(config.data.dataset, ()):
        return _only_measured(claims, "no significant trend")
    return claims


def _only_measured(claims: list[Claim], paper: str) -> list[Claim]:
    changed = {"above": -math.inf, "paper": paper, "primary": False}
    return [dataclasses.replace(claim, **changed) for claim in claims]


def _kind_claim(config: ml_collections.ConfigDict, pictures: Panel) -> Claim:
    """Returns the claim that Tiny ImageNet's inputs are learned better than Gaussian ones.

    Each has a teacher of its own, regularised on its inputs. Source: figures 22 and 23.
    """
    part = {"column": "test_injected_part", "chance": "most_used_class"}
    return _gap(
        f"Tiny ImageNet part minus Gaussian part, teacher {pictures['teacher_size']}, student "
        f"{pictures['size']}, share {pictures['share']:g}",
        "above 0 (figure 23)",
        _accuracy(config, pictures, "test_injected_part"),
        _accuracy(config, pictures | {"injected": "gaussian"}, "test_injected_part"),
        conditions=(above_chance("the student", classes=10, **part, **pictures),),
    )


def _size_gap_claim(config: ml_collections.ConfigDict, largest: Panel) -> Claim:
    """Returns the claim that the gap between the parts is larger for the largest student.

    Source: appendix E.5.3, figures 22 (a) and 25.
    """
    sizes = (largest["size"], min(config.sweep.size))
    both = [_worse(config, largest | {"size": size}) for size in sizes]
    words = [f"student {size} is worse on the injected part" for size in sizes]
    return _gap(
        f"labelled minus injected part at the end, student {sizes[0]} minus student {sizes[1]}, "
        f"teacher {largest['teacher_size']}, {_share_words(config, largest)}",
        "above 0 (figure 25)",
        *(one.statistic for one in both),
        conditions=tuple(shown(*one) for one in zip(both, words, strict=True)),
    )
