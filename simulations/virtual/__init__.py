"""A seeded world in virtual time."""
