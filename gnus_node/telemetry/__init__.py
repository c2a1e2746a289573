"""Structured log, metrics, traces and time accounts: what a node shows of itself, never a user's text (18.1.8).

Facade: ``PrometheusMetrics``, ``make_log``, ``emit``, ``RecordingProbe``, ``StageTimer``. The tables ``METRICS`` and ``EVENTS`` are data;
docs are generated from them.
"""
