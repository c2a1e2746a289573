"""What a question wants, by rules (18.1.3.1.5). Pure, below a millisecond, with the reasons it logged.

Rules look at form, never at whole sentences: how much of the question is numbers and operations, whether it names a file, whether it
speaks of this system, whether it asks for a fact. What no rule covers is ``general``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gnus_node.content.filenames import named_files
from gnus_node.records.enums import Intent, Risk

_TOKEN = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[a-z']+|[-+*/^%()=<>]")

NUMBER_WORDS = frozenset(
    (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
        "nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion dozen half "
        "third quarter thirds quarters fifth tenth first second"
    ).split()
)
OPERATION_WORDS = frozenset(
    (
        "plus minus times multiplied divided over squared cubed power root square percent sum difference product quotient add "
        "added subtract subtracted modulo mod remainder twice double triple less more than of and by from to the"
    ).split()
)
FRAME_WORDS = frozenset(
    ("what is are s how much many compute calculate evaluate equals equal result value a an in please work out find").split()
)
MEASURE_WORDS = frozenset(
    (
        "metre metres meter meters kilometre kilometres kilometer kilometers km mile miles foot feet inch inches yard yards cm mm "
        "gram grams kilogram kilograms kg pound pounds ounce ounces litre litres liter liters gallon gallons celsius fahrenheit "
        "kelvin degree degrees hour hours minute minutes seconds day days week weeks month months year years date between after "
        "before january february march april may june july august september october november december monday tuesday wednesday "
        "thursday friday saturday sunday leap convert byte bytes kilobytes megabytes gigabytes kmh mph acre acres hectare "
        "hectares kb mb gb tb pb kib mib gib tib bit bits kilobyte megabyte gigabyte gigabytes terabyte terabytes ton tons tonne tonnes "
        "ml cl dl l m g mg lb lbs oz ft yd mi stone fortnight fortnights decade decades century centuries second minute knots knot "
        "weekday prime common"
    ).split()
)
SYSTEM_WORDS = frozenset(
    (
        "gnus swarm ingress mandate charter intermediary verifier arbiter elm elms settlement attestation attestations dispatch "
        "colocation generation lease fencing router semantic revocation trustlog lmdb openat2 plugin plugins tier tiers grant "
        "grants"
    ).split()
)
_SYSTEM_PHRASES = ("this system", "this node", "the node", "this program", "audit bundle", "trust head", "tool proposal", "execution plan")
_CALCULATION = NUMBER_WORDS | OPERATION_WORDS | FRAME_WORDS | MEASURE_WORDS
_LINKING = frozenset({"of", "and", "by", "from", "to", "the", "than", "over"})
_COUNTS = (["how", "many"], ["how", "long"], ["number", "of"])
_FACT_HEADS = frozenset(("what which who whom whose when where how why name is are does did was were in").split())
_RISKY = frozenset(("delete remove transfer pay buy sell send deploy execute run write overwrite install shutdown password secret").split())


@dataclass(frozen=True, slots=True)
class Classified:
    """An intent with how sure the rules are (0..10000) and why, in words of ours."""

    intent: Intent
    confidence: int
    numeric: bool
    """Whether the question holds two or more numbers or a calculation, so that a math expert is worth asking."""
    reasons: tuple[str, ...]


def tokens(text: str) -> list[str]:
    """Lower-case words, numbers and operators."""
    return _TOKEN.findall(text.casefold())


def names_path(text: str) -> bool:
    """Whether a question plainly names a file."""
    return bool(named_files(text))


def classify(question: str) -> Classified:
    """The intent of a question."""
    words = tokens(question)
    if not words:
        return Classified(Intent.UNKNOWN, 0, False, ("intent: no words",))
    numbers = sum(1 for w in words if w[0].isdigit() or w in NUMBER_WORDS)
    operators = sum(1 for w in words if w in "-+*/^%()=" or w in OPERATION_WORDS - _LINKING)
    known = sum(1 for w in words if not w[0].isalpha() or w in _CALCULATION)
    measures = sum(1 for w in words if w in MEASURE_WORDS)
    numeric = numbers >= 2 or (numbers >= 1 and (operators + measures) >= 1) or (measures >= 2 and words[:2] in _COUNTS)
    if names_path(question):
        return Classified(Intent.FILE, 9000, numeric, ("intent: names a file",))
    if numeric and known * 10 >= len(words) * 9:
        return Classified(Intent.ARITHMETIC, 9500, True, (f"intent: {known} of {len(words)} words are calculation",))
    if "```" in question or re.search(r"\b(def|class|return|import|function|const)\b.*[({:]", question):
        return Classified(Intent.CODE, 7500, numeric, ("intent: code syntax",))
    folded = question.casefold()
    system = sum(1 for w in words if w in SYSTEM_WORDS) + sum(1 for p in _SYSTEM_PHRASES if p in folded)
    if system:
        return Classified(Intent.SYSTEM, min(9000, 6000 + 1000 * system), numeric, (f"intent: {system} words of this system",))
    if words[0] in _FACT_HEADS or question.rstrip().endswith("?"):
        return Classified(Intent.FACT, 7000, numeric, ("intent: asks for a fact",))
    return Classified(Intent.GENERAL, 5000, numeric, ("intent: no rule matched",))


def risk_of(question: str, intent: Intent) -> tuple[Risk, str]:
    """The risk class: words of action raise it; what cannot act stays low."""
    acting = sorted(set(tokens(question)) & _RISKY)
    if acting:
        return Risk.MEDIUM, f"risk: {len(acting)} words of action"
    if intent is Intent.FILE:
        return Risk.LOW, "risk: reads one file"
    return Risk.LOW, "risk: no action asked for"
