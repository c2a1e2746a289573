"""Benchmarks: what one node costs, against baselines of the same run (``make bench``)."""
