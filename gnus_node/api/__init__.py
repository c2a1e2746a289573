"""HTTP for one node: OpenAI's API at a loopback port, the same and the admin verbs at a 0600 unix socket.

Why a room of its own: it turns bytes of strangers into ``Ask`` values and ``Answered`` values into bytes, and knows nothing else of
the node: ``Submit`` and ``Admin`` are injected. docs/protocol/http.md is its contract; every bound is in ``settings``. Seed 18.1.2.1.

Import ``gnus_node.api.app`` (``ApiDeps``, ``build_app``, ``build_local_app``), ``gnus_node.api.server`` (``serve``) and
``gnus_node.api.keys`` (``KeyRing``); this package imports nothing by itself, so that the command line starts fast.
"""
