"""Makes the golden vectors, by hand: ``python -m tests.vectors.make`` from the repository's root.

Run it only when a kind is added or gets a new version, and read the difference before it is committed: a change to an existing file
means that old records would no longer open. The tests never run this; they hold the node to the files as they are.

One file a kind, with two records: ``full`` has every optional field, ``least`` has none. Keys are Ed25519 with a seed of one byte repeated
32 times. ``raw`` is the whole envelope, ``body`` the plain structure with byte strings as ``{"hex": ...}``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gnus_node.records.memory import MemoryEvent
from gnus_node.wire.kinds import COSIGNED, KINDS
from gnus_node.wire.memory_event import seal_event
from gnus_node.wire.signed import seal, signing_bytes
from tests.vectors.support import KEYS, Key, header, plain_of, sample, to_json

HERE = Path(__file__).parent
AUTHOR = Key(77)
COSIGNERS = (Key(101), Key(102))


def record_vector(kind: str, *, full: bool) -> dict[str, Any]:
    row = KINDS[(kind, 1)]
    role = sorted(row.signers)[0]
    head, body = header(kind, role, full=full), sample(row.body, full=full)
    cosigners = COSIGNERS if full and kind in COSIGNED else ()
    cosign = [(key.public, key.sign(signing_bytes(head, body))) for key in cosigners]
    signed = seal(head, body, KEYS[role].sign, cosign=cosign)
    return {
        "seed_byte": KEYS[role].seed_byte,
        "cosigner_seed_bytes": [key.seed_byte for key in cosigners],
        "header": to_json(plain_of(head)),
        "body": to_json(plain_of(body)),
        "raw": signed.raw.hex(),
        "id": signed.id.hex(),
    }


def event_vector(*, full: bool) -> dict[str, Any]:
    event = sample(MemoryEvent, full=full).model_copy(update={"author": AUTHOR.public})
    signed = seal_event(event, AUTHOR.sign)
    return {"seed_byte": AUTHOR.seed_byte, "body": to_json(plain_of(event)), "raw": signed.raw.hex(), "id": signed.id.hex()}


def main() -> None:
    for kind, _version in KINDS:
        found = {"kind": kind, "version": 1, "full": record_vector(kind, full=True), "least": record_vector(kind, full=False)}
        (HERE / f"{kind}.json").write_text(json.dumps(found, indent=1) + "\n")
    found = {"kind": "memory_event", "version": 1, "full": event_vector(full=True), "least": event_vector(full=False)}
    (HERE / "memory_event.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
