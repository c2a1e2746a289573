"""The command line: ``gnus-node GROUP [VERB]`` (DESIGN.md section 10).

Each group is one module ``cmd_<name>.py``, imported only when its command runs; ``table.py`` is the list of them. Heavy imports (pydantic,
rich) stand inside the functions that need them, so that every ``--help`` stays quick (docs/adr/0003).
"""
