"""What the node needs from outside, as Protocols: clock, entropy, offload, store, transport, signer, probe, tools, experts.

Typing only (floor 0). Real adapters and virtual ones are injected by ``node.py``; nothing above reads a clock, draws a random number,
starts a thread or opens a file by itself, so the whole node runs in virtual time (DESIGN.md section 1, rule 4).
"""

from gnus_node.ports.host import Clock, Entropy, Offload, Probe
from gnus_node.ports.signer import Signer
from gnus_node.ports.store import Keys, Row, Store, TextHit, TextIndex, Write
from gnus_node.ports.transport import Answer, IncomingCall, ServiceHandler, Transport

__all__ = [
    "Answer",
    "Clock",
    "Entropy",
    "IncomingCall",
    "Keys",
    "Offload",
    "Probe",
    "Row",
    "ServiceHandler",
    "Signer",
    "Store",
    "TextHit",
    "TextIndex",
    "Transport",
    "Write",
]
