"""The fixtures of these tests."""

from tests.start.world import ran, ran_once

__all__ = ["ran", "ran_once"]
