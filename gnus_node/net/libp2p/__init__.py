"""The libp2p adapter of ``ports.Transport`` and ``ports.Gossip`` (DESIGN.md section 5): py-libp2p 0.8.1 on trio, hardened.

Importing libp2p costs most of a second and some 70 MB, so nothing outside this package imports it, and this package is imported only by a
node whose settings ask for the network (``[net]``). libp2p is the extra ``p2p``.
"""
