"""Spellings of "one directory up" and of places outside: the list that both walls are tried with."""

from __future__ import annotations

from random import Random

UP = [
    "..",
    ".. ",
    " ..",
    "..\0",
    "\u2025",
    "\uff0e\uff0e",
    "\uff0e.",
    ".\uff0e",
    "\u2024\u2024",
    ".\u2024",
    ".\u200d.",
    ".\u200b.",
    "\ufeff..",
    "..\u202e",
    "%2e%2e",
    "%2E%2e",
    ".%2e",
    "%2e.",
    "%252e%252e",
    "%25252e%2e",
    "%c0%ae%c0%ae",
    "%C0%AE.",
    "%e0%80%ae%e0%80%ae",
    "%f0%80%80%ae.",
    "%u002e%u002e",
    "..%00",
    "..%2f",
    "..%5c",
    "..\t",
    "..\r",
    "..\x7f",
    "..\x85",
    "..\u2028",
]
SEPARATORS = ["/", "//", "/./", "\\", "\\/", "%2f", "%2F", "%5c", "%252f", "%c0%af", "\u2215", "\u2044", "\uff0f", "\uff3c", "\u29f8"]
AIMS = ["etc/passwd", "secret.txt", "outside/secret.txt", "proc/self/root/etc/passwd", "root/.ssh/id_rsa", "proc/self/environ", "dev/zero"]
STARTS = ["", "", "in/", "./", "in/sub/", "/srv/docs/", "a.txt/", "link/", "in/./"]
FIXED = [
    "/etc/passwd",
    "//etc/passwd",
    "///etc/passwd",
    "/proc/self/root/etc/passwd",
    "/proc/self/environ",
    "/proc/self/fd/0",
    "/proc/1/root/etc/shadow",
    "/dev/zero",
    "/dev/stdin",
    "/srv/docs/../secret.txt",
    "/srv/docs/..",
    "/srv/docs",
    "/srv/docs/",
    "/srv/docs//a.txt",
    "/srv/docsecret/a.txt",
    "/srv/docs\0/a.txt",
    "/srv/docs/a.txt\0.md",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "http://evil.example/",
    "\\\\server\\share\\secret",
    "C:\\Windows\\win.ini",
    "..",
    ".",
    "./",
    "/",
    "//",
    "./.",
    "in/",
    "in//a.txt",
    "\0",
    " ",
    "\n",
    "a.txt\n",
    "\ud800",
    "a\u202etxt.exe",
]


def traversal_strings(r: Random, count: int) -> list[str]:
    """At least ``count`` different strings, each of which must be refused below ``/srv/docs``."""
    found = dict.fromkeys(FIXED)
    while len(found) < count:
        ups = [r.choice(UP) + r.choice(SEPARATORS) for _ in range(r.randint(1, 6))]
        found[r.choice(STARTS) + "".join(ups) + r.choice(AIMS)] = None
    return list(found)
