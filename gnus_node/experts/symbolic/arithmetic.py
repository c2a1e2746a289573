"""Arithmetic in digits and in English: all readings of a sentence, as expression trees.

A recursive descent parser that keeps every reading (memoised by place): English is ambiguous where notation is not ("the product of two
and three plus four"), and a question that can be read in two ways with different values must not be answered. Conventional precedence is
in the grammar, so it is no ambiguity: powers, then signs, then ``* /``, then ``+ -``, left to right; roots, fractions "of" and percentages
"of" bind their next operand.

Bounds: places, nesting, and steps of the parser; beyond them there is no reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from gnus_node.experts.symbolic.exact import Node, Tree
from gnus_node.experts.symbolic.numbers import SMALL_ORDINALS, digits, readings, sign, word
from gnus_node.experts.symbolic.tokens import Kind, Token

Parses = list[tuple[Tree, int]]

MAX_DEPTH = 24
MAX_STEPS = 3000


class Unreadable(Exception):
    """Over a bound of the parser."""


def _table(text: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    rows = [line.split("|") for line in text.strip().splitlines()]
    found = [(tuple(phrase.split()), op.strip()) for phrase, op in rows]
    return tuple(sorted(found, key=lambda row: -len(row[0])))


_ADDITIVE = _table("""
+            | +
plus         | +
added to     | +
increased by | +
-            | -
minus        | -
less         | -
decreased by | -
""")
_REVERSED = _table("""
subtracted from | -
less than       | -
more than       | +
""")
_MULTIPLICATIVE = _table("""
*             | *
times         | *
multiplied by | *
/             | /
divided by    | /
over          | /
modulo        | %
mod           | %
""")
_RAISED = _table("""
^                       | ^
to the power of         | words
to the power            | words
raised to the power of  | words
raised to the power     | words
raised to               | words
""")
_POSTFIX = {"squared": 2, "cubed": 3, "²": 2, "³": 3}
_PREFIX = _table("""
square root of       | sqrt
the square root of   | sqrt
sqrt of              | sqrt
sqrt                 | sqrt
√                    | sqrt
cube root of         | cbrt
the cube root of     | cbrt
square of            | square
the square of        | square
cube of              | cube
the cube of          | cube
double               | double
twice                | double
triple               | triple
thrice               | triple
""")
_LISTS = _table("""
sum of              | +
product of          | *
average of          | mean
mean of             | mean
difference of       | difference
difference between  | difference
quotient of         | /
""")
_IMPERATIVES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("add", ("to", "and"), "+"),
    ("subtract", ("from",), "from"),
    ("multiply", ("by", "and"), "*"),
    ("divide", ("by",), "/"),
)


class Parser:
    """The readings of one token sequence."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._texts = [t.text for t in tokens]
        self._memo: dict[tuple[str, int], Parses] = {}
        self._steps = 0
        self._depth = 0

    def sentences(self) -> list[Tree]:
        """Trees that account for every token. Raises ``Unreadable``."""
        found = self._imperative() + self.expression(0)
        return [tree for tree, end in found if end == len(self._tokens)]

    def percentages(self) -> list[Tree]:
        """Readings of "what percent of A is B" and "B is what percent of A", in percent."""
        found: list[Tree] = []
        for words in (("percent", "of"), ("percentage", "of"), ("per", "cent", "of"), ("%", "of")):
            if self._at(0, words):
                for whole, middle in self.expression(len(words)):
                    if self._at(middle, ("is",)):
                        found += [self._percentage(part, whole) for part, end in self.expression(middle + 1) if end == len(self._tokens)]
            for part, middle in self.expression(0):
                if self._at(middle, ("is", "what", *words)):
                    ends = self.expression(middle + 2 + len(words))
                    found += [self._percentage(part, whole) for whole, end in ends if end == len(self._tokens)]
        return found

    @staticmethod
    def _percentage(part: Tree, whole: Tree) -> Tree:
        return Node("*", (Node("/", (part, whole)), Fraction(100)))

    # --- reading helpers

    def _at(self, place: int, phrase: tuple[str, ...]) -> bool:
        return tuple(self._texts[place : place + len(phrase)]) == phrase

    def _operator(self, place: int, table: tuple[tuple[tuple[str, ...], str], ...]) -> list[tuple[str, int]]:
        """The longest phrase of the table here: its operation and where it ends."""
        for phrase, op in table:
            if self._at(place, phrase):
                return [(op, place + len(phrase))]
        return []

    def _rule(self, name: str, place: int, read: Callable[[int], Parses]) -> Parses:
        """Memoise a rule, bounding depth and steps, and dropping repeats."""
        if (name, place) in self._memo:
            return self._memo[name, place]
        self._depth += 1
        if self._depth > MAX_DEPTH * 4:
            raise Unreadable
        found = list(dict.fromkeys(read(place))) if place < len(self._tokens) else []
        self._spend(1 + len(found))
        self._depth -= 1
        self._memo[name, place] = found
        return found

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise Unreadable

    # --- the grammar, loosest first

    def expression(self, place: int) -> Parses:
        """Sums and differences."""
        return self._rule("expression", place, self._expression)

    def _expression(self, place: int) -> Parses:
        found: Parses = []
        frontier = self._item(place)
        while frontier:
            found += frontier
            reached: Parses = []
            for left, at in frontier:
                for op, after in self._operator(at, _ADDITIVE):
                    reached += [(Node(op, (left, right)), end) for right, end in self._item(after)]
                for op, after in self._operator(at, _REVERSED):
                    reached += [(Node(op, (right, left)), end) for right, end in self.term(after)]
            frontier = list(dict.fromkeys(reached))
            self._spend(len(frontier))
        return found

    def _item(self, place: int) -> Parses:
        """A term, or "two less than ten" as one operand."""
        found = list(self.term(place))
        for left, at in self.term(place):
            for op, after in self._operator(at, _REVERSED):
                found += [(Node(op, (right, left)), end) for right, end in self.term(after)]
        return found

    def term(self, place: int) -> Parses:
        """Products and quotients, left to right."""
        return self._rule("term", place, self._term)

    def _term(self, place: int) -> Parses:
        found: Parses = []
        frontier = self.factor(place)
        while frontier:
            found += frontier
            frontier = [
                (Node(op, (left, right)), end)
                for left, at in frontier
                for op, after in self._operator(at, _MULTIPLICATIVE)
                for right, end in self.factor(after)
            ]
            self._spend(len(frontier))
        return found

    def factor(self, place: int) -> Parses:
        """Signs before powers; "negative two squared" in words can be read both ways."""
        return self._rule("factor", place, self._factor)

    def _factor(self, place: int) -> Parses:
        here = self._texts[place]
        if here in ("+", "positive"):
            return self.factor(place + 1)
        if here in ("-", "minus", "negative"):
            found: Parses = [(Node("neg", (value,)), end) for value, end in self.factor(place + 1)]
            if here != "-":
                negated: Parses = [(Node("neg", (value,)), end) for value, end in self.primary(place + 1)]
                found += self._raise(negated)
            return found
        return self._raise(self.primary(place))

    def _raise(self, bases: Parses) -> Parses:
        """Powers after their base. ``^`` groups to the right; powers in words keep both groupings."""
        found: Parses = []
        frontier = [(tree, at, False) for tree, at in bases]
        while frontier:
            found += [(tree, at) for tree, at, _ in frontier]
            reached: list[tuple[Tree, int, bool]] = []
            for base, at, closed in frontier:
                power = _POSTFIX.get(self._texts[at]) if at < len(self._texts) else None
                if power:
                    reached.append((Node("^", (base, Fraction(power))), at + 1, closed))
                for op, after in self._operator(at, _RAISED):
                    if op == "^" and closed:
                        continue
                    reached += [(Node("^", (base, n)), end, op == "^") for n, end in self.factor(after)]
                reached += [(Node("^", (base, Fraction(n))), end, False) for n, end in self._nth_power(at)]
            frontier = reached
            self._spend(len(frontier))
        return found

    def _nth_power(self, place: int) -> list[tuple[int, int]]:
        """ "to the fifth", "to the 5th power"."""
        at = place + self._at(place, ("raised",))
        if not self._at(at, ("to", "the")):
            return []
        n = self._ordinal(at + 2)
        return [(n, end) for end in (at + 3, at + 4) if end == at + 3 or self._at(at + 3, ("power",))] if n else []

    def _ordinal(self, place: int) -> int:
        if place >= len(self._tokens):
            return 0
        if self._tokens[place].kind is Kind.ORDINAL:
            return int(self._texts[place][:-2])
        return SMALL_ORDINALS.get(word(self._tokens, place), 0)

    def primary(self, place: int) -> Parses:
        """Numbers, brackets, phrases with their operands."""
        return self._rule("primary", place, self._primary)

    def _primary(self, place: int) -> Parses:
        found: Parses = []
        if sign(self._tokens, place) == "(":
            found += [(tree, end + 1) for tree, end in self.expression(place + 1) if sign(self._tokens, end) == ")"]
        for value, at in readings(self._tokens, place):
            found += [(value, at), *self._portion(value, at)]
        found += self._ratio_of(place)
        for op, at in self._operator(place, _PREFIX):
            found += [(_applied(op, tree), end) for tree, end in self.factor(at)]
        at = place + self._at(place, ("the",))
        for op, start in self._operator(at, _LISTS):
            found += self._list_phrase(op, start)
        for words in (("fifth", "power", "of"), ("fourth", "power", "of"), ("third", "power", "of")):
            if self._at(at, words):
                power = Fraction(SMALL_ORDINALS[words[0]])
                found += [(Node("^", (tree, power)), end) for tree, end in self.factor(at + 3)]
        return found

    def _portion(self, value: Fraction, at: int) -> Parses:
        """ "three quarters of X", "20 percent of X"."""
        share, of_at = value, at
        for phrase in (("percent",), ("per", "cent"), ("%",)):
            if self._at(at, phrase):
                share, of_at = value / 100, at + len(phrase)
        if of_at == at and value.denominator == 1:
            return []
        if of_at == at and self._at(at, ("the",)):
            return [(Node("*", (share, tree)), end) for tree, end in self.primary(at)]
        if not self._at(of_at, ("of",)):
            return []
        return [(Node("*", (share, tree)), end) for tree, end in self.factor(of_at + 1)]

    def _ratio_of(self, place: int) -> Parses:
        """ "3/4 of X"."""
        top, bottom = digits(self._tokens, place), digits(self._tokens, place + 2)
        if top is None or bottom is None or not self._at(place + 1, ("/",)) or not self._at(place + 3, ("of",)):
            return []
        return [(Node("*", (Node("/", (top, bottom)), tree)), end) for tree, end in self.factor(place + 4)]

    def _list_phrase(self, op: str, start: int) -> Parses:
        """ "the sum of A, B and C", the comma that may close it included."""
        found: Parses = []
        for items, end in self._items(start):
            if len(items) > 2 and op not in ("+", "*", "mean"):
                continue
            for tree in _combined(op, items):
                found.append((tree, end))
                after = sign(self._tokens, end) == "," and any(self._operator(end + 1, t) for t in (_ADDITIVE, _MULTIPLICATIVE))
                if after:
                    found.append((tree, end + 1))
        return found

    def _items(self, start: int) -> list[tuple[tuple[Tree, ...], int]]:
        """Lists of two or more expressions: commas between, "and" before the last."""
        open_lists: list[tuple[tuple[Tree, ...], int]] = [((tree,), end) for tree, end in self.expression(start)]
        closed: list[tuple[tuple[Tree, ...], int]] = []
        while open_lists:
            longer: list[tuple[tuple[Tree, ...], int]] = []
            for items, at in open_lists:
                comma = sign(self._tokens, at) == ","
                if self._at(at + comma, ("and",)):
                    closed += [((*items, tree), end) for tree, end in self.expression(at + comma + 1)]
                elif comma:
                    longer += [((*items, tree), end) for tree, end in self.expression(at + 1)]
            self._spend(len(longer) + len(closed))
            open_lists = longer
        return closed

    def _imperative(self) -> Parses:
        """ "add A to B", "subtract A from B", "multiply A by B", "divide A by B"."""
        found: Parses = []
        for verb, links, op in _IMPERATIVES:
            if not self._at(0, (verb,)):
                continue
            for left, at in self.expression(1):
                for link in links:
                    if self._at(at, (link,)):
                        pairs = [(left, right, end) for right, end in self.expression(at + 1)]
                        found += [(Node("-", (r, x)) if op == "from" else Node(op, (x, r)), end) for x, r, end in pairs]
        return found


def _applied(op: str, tree: Tree) -> Tree:
    if op in ("square", "cube"):
        return Node("^", (tree, Fraction(2 if op == "square" else 3)))
    if op in ("double", "triple"):
        return Node("*", (Fraction(2 if op == "double" else 3), tree))
    return Node(op, (tree,))


def _combined(op: str, items: tuple[Tree, ...]) -> list[Tree]:
    """The tree of a list phrase; a difference whose order is unclear has two readings."""
    if op == "mean":
        return [Node("mean", items)]
    if op == "difference":
        return [Node("-", items), Node("distance", items)]
    tree = items[0]
    for item in items[1:]:
        tree = Node(op, (tree, item))
    return [tree]
