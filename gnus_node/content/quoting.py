"""What a reader is shown of a quoted span: its words without markup, and nothing that could act (18.1.3.8.9). Pure.

A document's text is stored as written, so that spans and digests hold; an answer is never a raw slice of it. Links become their text,
tables their cells, emphasis and code marks go, and active content (scripts, tags with attributes, ``javascript:`` addresses) goes whole.

Invariants: total; linear (every pattern is bounded); words that are shown stand in the source in the same order.
"""

from __future__ import annotations

import re

_HINTS = re.compile(r"[<\[*`|#\n\t~]|script|data:|  ")
_BLOCKS = re.compile(
    r"<(script|style|iframe|object|embed|svg|template|noscript)\b[^<>]{0,2000}>?.{0,20000}?(?:</\1\s{0,8}>|\Z)|<!--.{0,20000}?(?:-->|\Z)",
    re.I | re.S,
)
_TAG_NAMES = (
    "a|abbr|audio|b|base|big|blockquote|body|br|button|center|code|col|dd|del|details|div|dl|dt|em|embed|font|form|frame|h[1-6]|head|hr|html|i|"
    "iframe|img|input|ins|kbd|li|link|mark|meta|object|ol|option|p|pre|q|s|script|section|select|small|span|strike|strong|style|sub|summary|"
    "sup|svg|table|tbody|td|template|textarea|tfoot|th|thead|title|tr|tt|u|ul|var|video"
)
_TAG = re.compile(rf"</?(?:{_TAG_NAMES})\s{{0,8}}/?>|</?[a-z][\w:-]{{0,40}}[\s/][^<>]{{0,2000}}=[^<>]{{0,2000}}>", re.I)
_LINK = re.compile(r"!?\[([^\]\n]{0,300})\](?:\((?:[^()\n]|\([^()\n]{0,200}\)){0,1000}\)|\[[^\]\n]{0,100}\])")
_AUTOLINK = re.compile(r"<((?:https?|mailto):[^<>\s]{1,1000})>", re.I)
_ACTIVE = re.compile(r"\b(?:javascript|vbscript|livescript)\s{0,4}:\s{0,4}\S{0,2000}|\bdata:[a-z/+.-]{0,60}[;,]\S{0,4000}", re.I)
_CODE = re.compile(r"(`{1,3})([^`\n]{1,400}?)\1")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3}|~~)(?=\S)([^*~\n]{1,400}?)(?<=\S)\1(?![\w*])")
_STRAY = re.compile(
    r"(?<=[^\s\d*])\*{2,3}(?!\d)|(?<!\d)\*{2,3}(?=[^\s\d*])|(?:^|(?<=\s))\*+(?=[^\s*])|(?<=[^\s*\d])\*+(?=\s|[.,;:!?]|$)|`+"
)
_HEADING = re.compile(r"(?m)^[ \t]{0,3}#{1,6}[ \t]+|[ \t]+#{1,6}[ \t]*$")
_RULE_ROW = re.compile(r"(?m)^[ \t]{0,8}\|?[ \t:|-]{0,200}-{3}[ \t:|-]{0,200}\|?[ \t]*$")
_ROW = re.compile(r"(?m)^[ \t]{0,8}\|(.{1,2000}?)\|?[ \t]*$")
_BULLET = re.compile(r"([^\s.:;!?,])?[ \t]*\n[ \t]*(?:[-*•+])[ \t]+")
_FENCE = re.compile(r"(?m)^[ \t]{0,3}(?:```|~~~)[^\n]*$")


def plain_quote(text: str) -> str:
    """The words of a span as a person reads them, on one line."""
    if not _HINTS.search(text):
        return " ".join(text.split())
    text = inert(text)
    if "|" in text:
        text = _ROW.sub(lambda m: ", ".join(c.strip() for c in m[1].split("|") if c.strip()), _RULE_ROW.sub("", text))
    text = _HEADING.sub("", _FENCE.sub("", text))
    text = re.sub(r"^\s*[-*•+][ \t]+", "", _BULLET.sub(lambda m: f"{m[1]}; " if m[1] else " ", text))
    text = _EMPHASIS.sub(r"\2", _CODE.sub(r"\2", text))
    return " ".join(_STRAY.sub("", text).split())


def inert(text: str) -> str:
    """The text without anything that acts: scripts, tags, addresses that run code; links become their text."""
    if "<" in text:
        text = _TAG.sub(" ", _AUTOLINK.sub(r"\1", _BLOCKS.sub(" ", text)))
    if "[" in text:
        text = _LINK.sub(r"\1", text)
    return _ACTIVE.sub("", text) if ":" in text else text
