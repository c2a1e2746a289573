"""Settings of a node: strict TOML, read once at start; policies and profiles as data (DESIGN.md sections 1 and 5).

``load_config(path)`` gives a frozen ``NodeConfig`` or a ``CONFIG`` error with file, line and nearest key. There are no environment
overrides: what runs is what the file says. ``policies`` reads templates and colocation profiles, ``describe`` makes
docs/configuration.md; both are imported by name, so that a command that only looks for the socket does not pay for them.
"""

from gnus_node.config.load import load_config
from gnus_node.config.model import ApiSettings, CorpusSettings, ExpertSettings, NodeConfig

__all__ = ["ApiSettings", "CorpusSettings", "ExpertSettings", "NodeConfig", "load_config"]
