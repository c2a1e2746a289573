"""Settings of a node: strict TOML, read once at start; policies and profiles as data (DESIGN.md sections 1 and 5).

``load_config(path)`` gives a frozen ``NodeConfig`` or a ``CONFIG`` error with file, line and nearest key. There are no environment
overrides: what runs is what the file says. The table in docs/configuration.md is made by ``describe_config()``.
"""

from gnus_node.config.describe import describe_config
from gnus_node.config.load import load_config
from gnus_node.config.model import ApiSettings, CorpusSettings, ExpertSettings, NodeConfig
from gnus_node.config.policies import ColocationRules, builtin_policies, load_colocation, load_policy, load_template

__all__ = [
    "ApiSettings",
    "ColocationRules",
    "CorpusSettings",
    "ExpertSettings",
    "NodeConfig",
    "builtin_policies",
    "describe_config",
    "load_colocation",
    "load_config",
    "load_policy",
    "load_template",
]
