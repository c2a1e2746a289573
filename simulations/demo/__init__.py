"""``make demo``: a node with nine roles answers real questions from real documents, and every answer is audited offline.

``python -m simulations.demo`` starts the program as a user would, in a data directory, at a socket and at a port of its own, so that it stands
beside any node that runs already. It asks over that node's socket, exports each audit bundle, and verifies it in its own process from the bundle
and the charter alone. It exits 0 only if every audit holds and the node lived to the end.
"""
