"""Experts (floor 6): one trait, and the backends that really produce answers, each under its own kind."""
