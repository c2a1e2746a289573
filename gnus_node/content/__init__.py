"""Content: text made safe to read. Normalising, invisible text, scrubbing, labels, sanitising. Pure (DESIGN.md section 1, floor 2)."""

from gnus_node.content.invisible import Cleaned, remove_invisible
from gnus_node.content.labels import BEST, Confidentiality, Integrity, Label, join_all
from gnus_node.content.normalise import clean_controls, fold, fold_space, nfc, scan_copy
from gnus_node.content.sanitise import SANITIZER_VERSION, Sanitised, StripReport, sanitise_text
from gnus_node.content.scrub import Finding, Scrubbed, instruction_scrub

__all__ = [
    "BEST",
    "Cleaned",
    "Confidentiality",
    "Finding",
    "Integrity",
    "Label",
    "SANITIZER_VERSION",
    "Sanitised",
    "Scrubbed",
    "StripReport",
    "clean_controls",
    "fold",
    "fold_space",
    "instruction_scrub",
    "join_all",
    "nfc",
    "remove_invisible",
    "sanitise_text",
    "scan_copy",
]
