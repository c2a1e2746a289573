"""gnus-node: one program that joins a swarm and hosts any of nine roles. See docs/ARCHITECTURE.md."""

__version__ = "0.1.0"
