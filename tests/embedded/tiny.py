"""A model small enough to be made in a test: the format by hand, random weights, no words of any language.

A llama of two layers over a vocabulary of bytes. Rows of the output of unprintable bytes are zero and the others are not, so that greedy
text is printable; the end-of-text token is among the zero rows, so a generation ends where its limit is.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

ARCHITECTURE, CONTEXT = "llama", 8192
_U32, _F32, _BOOL, _STRING, _ARRAY, _I32 = 4, 6, 7, 8, 9, 5
_ALIGNMENT = 32

Value = str | int | float | bool | list[str] | list[int] | list[float]


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _plain(value: str | int | float | bool) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return _BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return _U32, struct.pack("<I", value)
    if isinstance(value, float):
        return _F32, struct.pack("<f", value)
    return _STRING, _text(value)


def encode_value(value: Value) -> bytes:
    """A typed value of the header."""
    if not isinstance(value, list):
        kind, raw = _plain(value)
        return struct.pack("<I", kind) + raw
    kind = _I32 if isinstance(value[0], int) else _plain(value[0])[0]
    items = b"".join(struct.pack("<i", item) if isinstance(item, int) else _plain(item)[1] for item in value)
    return struct.pack("<IIQ", _ARRAY, kind, len(value)) + items


def encode_header(pairs: list[tuple[str, Value]], tensors: list[tuple[str, list[int]]], *, version: int = 3) -> bytes:
    """Everything before the weights, padded."""
    parts = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(pairs))]
    parts += [_text(key) + encode_value(value) for key, value in pairs]
    offset = 0
    for name, shape in tensors:
        parts.append(_text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, offset))
        size = 4
        for side in shape:
            size *= side
        offset += -(-size // _ALIGNMENT) * _ALIGNMENT
    raw = b"".join(parts)
    return raw + bytes(-len(raw) % _ALIGNMENT)


def header_pairs(*, template: str = "", licence: str = "MIT", width: int = 64, layers: int = 2) -> list[tuple[str, Value]]:
    """The keys of a tiny llama."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [2, 3, 3, *([6] * 256)]
    pairs: list[tuple[str, Value]] = [
        ("general.architecture", ARCHITECTURE),
        ("general.name", "tiny"),
        ("general.license", licence),
        (f"{ARCHITECTURE}.context_length", CONTEXT),
        (f"{ARCHITECTURE}.embedding_length", width),
        (f"{ARCHITECTURE}.block_count", layers),
        (f"{ARCHITECTURE}.feed_forward_length", 2 * width),
        (f"{ARCHITECTURE}.attention.head_count", 4),
        (f"{ARCHITECTURE}.attention.layer_norm_rms_epsilon", 1e-5),
        (f"{ARCHITECTURE}.rope.dimension_count", width // 4),
        ("tokenizer.ggml.model", "llama"),
        ("tokenizer.ggml.tokens", tokens),
        ("tokenizer.ggml.scores", [float(-i) for i in range(len(tokens))]),
        ("tokenizer.ggml.token_type", kinds),
        ("tokenizer.ggml.bos_token_id", 1),
        ("tokenizer.ggml.eos_token_id", 2),
        ("tokenizer.ggml.add_space_prefix", False),
    ]
    return pairs + ([("tokenizer.chat_template", template)] if template else [])


TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def write_tiny(path: Path, *, template: str = "", seed: int = 1, width: int = 64, layers: int = 2) -> Path:
    """The model as a file; equal arguments, equal bytes."""
    pairs = header_pairs(template=template, width=width, layers=layers)
    vocabulary = 259
    tensors = [("token_embd.weight", [width, vocabulary]), ("output_norm.weight", [width]), ("output.weight", [width, vocabulary])]
    for layer in range(layers):
        block = f"blk.{layer}"
        tensors += [(f"{block}.attn_norm.weight", [width]), (f"{block}.ffn_norm.weight", [width])]
        tensors += [(f"{block}.attn_{part}.weight", [width, width]) for part in ("q", "k", "v", "output")]
        tensors += [(f"{block}.ffn_{part}.weight", [width, 2 * width]) for part in ("gate", "up")]
        tensors += [(f"{block}.ffn_down.weight", [2 * width, width])]
    chance = random.Random(seed)
    with path.open("wb") as file:
        file.write(encode_header(pairs, tensors))
        for name, shape in tensors:
            rows = shape[1] if len(shape) == 2 else 1
            for row in range(rows):
                # Byte B is token 3 + B; letters and digits may be said.
                silent = name == "output.weight" and not (row >= 3 and chr(row - 3).isascii() and chr(row - 3).isalnum())
                ones = name.endswith("norm.weight")
                values = [0.0 if silent else 1.0 if ones else chance.uniform(-1, 1) / 4 for _ in range(shape[0])]
                file.write(struct.pack(f"<{shape[0]}f", *values))
            size = 4 * shape[0] * rows
            file.write(bytes(-size % _ALIGNMENT))
    return path
