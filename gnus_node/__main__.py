"""``python -m gnus_node``: the same as ``gnus-node``."""

import sys

from gnus_node.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
