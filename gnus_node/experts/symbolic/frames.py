"""The words around a computation: "what is", "please compute", "the result of", a question mark.

They carry no meaning of their own, so they are taken off both ends before the parsers must account for every remaining token.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnus_node.experts.symbolic.tokens import Token


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    found = {tuple(line.split()) for line in text.strip().splitlines()}
    return tuple(sorted(found, key=lambda p: (-len(p), p)))


_PREFIXES = _phrases("""
what is
what's
whats
what are
what was
what would be
what will be
what do
what does
what
how much is
how much are
how much do
how much does
how many is
calculate
compute
evaluate
work out
figure out
find
find out
solve
simplify
determine
give me
tell me
show me
can you
could you
would you
will you
please
the result of
the value of
the answer to
the exact value of
the following
i need to know
do you know
""")
_SUFFIXES = _phrases("""
?
.
!
=
= ?
is
please
thanks
thank you
equal
equals
equal to
equals what
is equal to what
is what
come to
make
for me
""")
_AFTER = (":", ",")


def strip_frame(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens without the frame."""
    texts = [t.text for t in tokens]
    start, end = 0, len(texts)
    moved = True
    while moved:
        moved = False
        for phrase in _PREFIXES:
            if tuple(texts[start : start + len(phrase)]) == phrase and start + len(phrase) <= end:
                start += len(phrase)
                start += start < end and texts[start] in _AFTER
                moved = True
                break
    moved = True
    while moved:
        moved = False
        for phrase in _SUFFIXES:
            if end - len(phrase) >= start and tuple(texts[end - len(phrase) : end]) == phrase:
                end -= len(phrase)
                end -= end > start and texts[end - 1] == ","
                moved = True
                break
    return tokens[start:end]
