"""The nine built-in roles, one thin file each. They use ``gnus_node.role`` and their own rooms only, and never each other."""
