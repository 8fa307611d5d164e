"""The mutants of a module: single changes of its source that a test should notice.

Operators of Cosmic Ray where it has them (signs, comparisons, numbers, conditions, loops), and
three of its kind for what goes wrong in formulas: an operand that is forgotten, a keyword argument
that is forgotten, and a function that is taken for its neighbour.
"""

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider

_FROM_COSMIC_RAY = (
    *(
        f"ReplaceBinaryOperator_{pair}"
        for pair in (
            "Add_Sub",
            "Sub_Add",
            "Mul_Div",
            "Div_Mul",
            "FloorDiv_Mul",
            "Pow_Mul",
            "Mod_Mul",
        )
    ),
    *(
        f"ReplaceComparisonOperator_{pair}"
        for pair in (
            "Eq_NotEq NotEq_Eq Lt_LtE Lt_Gt LtE_Lt LtE_Gt Gt_GtE Gt_Lt GtE_Gt GtE_Lt "
            "Is_IsNot IsNot_Is"
        ).split()
    ),
    "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "AddNot",
    "ZeroIterationForLoop",
    "NumberReplacer",
)

_NEIGHBOURS = (
    "mean sum",
    "min max",
    "minimum maximum",
    "amin amax",
    "argmin argmax",
    "nanmin nanmax",
    "nanmean nansum",
    "sin cos",
    "floor ceil",
    "any all",
    "std var",
    "log log1p",
    "exp expm1",
    "sqrt square",
    "zeros ones",
    "zeros_like ones_like",
    "tril triu",
    "sorted list",
    "median mean",
    "abs real",
)
_NEIGHBOUR = dict(pair.split() for pair in reversed(_NEIGHBOURS))
_NEIGHBOUR = {b: a for a, b in _NEIGHBOUR.items()} | _NEIGHBOUR


class _Own(Operator):
    """An operator; test_mutants.py has its examples."""

    @classmethod
    def examples(cls) -> tuple:
        return ()


class ForgetOperand(_Own):
    """a * b becomes a, and b; likewise for sums, quotients, remainders, powers and a @ b."""

    def mutation_positions(self, node):
        places = self._places(node)
        # A list, as the node changes while Cosmic Ray goes through it.
        return [(node.start_pos, node.end_pos)] * (len(places) + bool(places))

    def _places(self, node) -> list[int]:
        if node.type == "power" and "**" in node.children:
            return [node.children.index("**")]
        if node.type in ("term", "arith_expr"):
            return list(range(1, len(node.children), 2))
        return []

    def mutate(self, node, index):
        places = self._places(node)
        if index < len(places):
            del node.children[places[index] : places[index] + 2]
        else:  # what stands before the first sign
            del node.children[: places[0] + 1]
        return node


# Keyword arguments that change what a call costs, or how its result is written, not the result.
_OF_COST = (
    "overwrite_a",
    "overwrite_b",
    "check_finite",
    "driver",
    "order",
    "dtype",
    "digits",
    "copy",
)


class ForgetArgument(_Own):
    """f(x, axis=0) becomes f(x)."""

    def mutation_positions(self, node):
        places = [node.children[place] for place in self._places(node)]
        return [(child.start_pos, child.end_pos) for child in places]

    def _places(self, node) -> list[int]:
        if node.type != "arglist":
            return []
        return [
            place
            for place, child in enumerate(node.children)
            if place
            and child.type == "argument"
            and child.children[1] == "="
            and child.children[0].value not in _OF_COST
        ]

    def mutate(self, node, index):
        place = self._places(node)[index]
        del node.children[place - 1 : place + 1]
        return node


class TakeNeighbour(_Own):
    """jnp.mean becomes jnp.sum, min becomes max, and the like, where they are called."""

    def mutation_positions(self, node):
        if node.type == "name" and node.value in _NEIGHBOUR and _is_called(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        node.value = _NEIGHBOUR[node.value]
        return node


def _is_called(name) -> bool:
    following = name.get_next_leaf()
    return following is not None and following == "(" and name.parent.type != "funcdef"


_OWN = (ForgetOperand, ForgetArgument, TakeNeighbour)

# What is said to the user, types, and what is drawn on axes are not science.
_DRAWS = re.compile(r"import matplotlib|\baxis\.|\baxes\b")
_LEFT_ALONE = {
    "raise_stmt", "decorator", "decorators", "import_name", "import_from", "tfpdef", "annassign",
    "parameters", "assert_stmt", "fstring_format_spec",
}  # fmt: skip


class Mutant(NamedTuple):
    """One changed source.

    Attributes:
        operator: the name of what changed it.
        line: where, from 1.
        source: all of the module.
        before: the lines that changed.
        after: what stands there now.
    """

    operator: str
    line: int
    source: str
    before: str
    after: str


def _is_left_alone(leaf) -> bool:
    node = leaf
    while node is not None:
        if node.type in _LEFT_ALONE:
            if node.type != "annassign" or "=" not in node.children:
                return True
            return node.children[-1].start_pos > leaf.start_pos
        if node.type == "funcdef":
            types = node.annotation
            if types is not None and types.start_pos <= leaf.start_pos < types.end_pos:
                return True
            if _DRAWS.search(node.get_code()):
                return True
        node = node.parent
    return False


# A guard against sequences of unequal lengths, and how many digits a table shows.
_UNSEEN = (
    r",\s*strict=(True|False)",
    r"(?<=\bround\()(|([^(),]|\([^()]*\))*,\s*)-?\s*\d+(?=\))",
    r"(?<=\"digits\": )-?\s*\d+",
    r"(?<=\bdigits=)-?\s*\d+",
)


def is_unseen(mutant: Mutant) -> bool:
    """Whether a mutant changes nothing but guards and digits shown, which no result depends on."""
    before, after = mutant.before, mutant.after
    for pattern in _UNSEEN:
        before, after = (re.sub(pattern, "", line) for line in (before, after))
    return before == after


def _difference(before: str, after: str) -> tuple[str, str]:
    one, other = before.splitlines(), after.splitlines()
    first = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    last = 0
    while last < min(len(one), len(other)) - first - 1 and one[-1 - last] == other[-1 - last]:
        last += 1
    return tuple(
        re.sub(r"\s+", " ", " ".join(lines[first : len(lines) - last])).strip()
        for lines in (one, other)
    )


def _all(source: str) -> Iterator[Mutant]:
    provider = OperatorProvider()
    operators = {name: provider[name]() for name in _FROM_COSMIC_RAY}
    operators |= {operator.__name__: operator() for operator in _OWN}
    tree = parso.parse(source)
    for name, operator in operators.items():
        positions = [p for node in ast_nodes(tree) for p in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(positions):
            if _is_left_alone(tree.get_leaf_for_position(start)):
                continue
            changed = mutate_code(source, operator, occurrence)
            try:
                compile(changed, "mutant", "exec")
            except SyntaxError:
                continue
            yield Mutant(name, start[0], changed, *_difference(source, changed))


def mutants_of(source: str, sample: int, seed: int) -> tuple[list[Mutant], int]:
    """Returns mutants in the order of their lines, no two alike, and how many there are in all.

    Args:
        source: of the module.
        sample: how many to draw at most, 0 for all.
        seed: of the draw.
    """
    unlike = {mutant.source: mutant for mutant in _all(source)}
    found = sorted(unlike.values(), key=lambda mutant: (mutant.line, mutant.operator, mutant.after))
    total = len(found)
    if sample and total > sample:
        drawn = sorted(random.Random(seed).sample(range(total), sample))
        found = [found[place] for place in drawn]
    return found, total
