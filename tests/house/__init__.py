"""The house checks: rules a linter does not know, run by ``python -m tests.house`` and by pytest (DESIGN.md section 1)."""
