"""A swarm of several nodes on this machine, each a process of its own, from one settings file (``gnus-node swarm``)."""
