"""How the bench judges: a target may be missed by what an unchanging piece of work shows of the machine's noise, and by no more."""

from __future__ import annotations

import pytest

from simulations.bench.__main__ import Row, noise_of
from simulations.bench.node_costs import quantile


def test_noise_is_how_far_unchanging_work_lies_above_its_first_quartile() -> None:
    assert noise_of([10.0] * 20, 0.95) == 1.0
    samples = [float(n) for n in range(100, 120)]
    assert noise_of(samples, 0.5) == quantile(samples, 0.5) / quantile(samples, 0.25)
    assert noise_of([1.0] * 10 + [3.0] * 10, 0.95) == 3.0
    assert noise_of(samples, 0.05) == 1.0, "never below one"


@pytest.mark.parametrize(("judged", "noise", "met"), [(8.0, 1.0, True), (8.1, 1.0, False), (8.7, 1.1, True), (8.9, 1.1, False)])
def test_a_miss_within_the_noise_is_none(judged: float, noise: float, met: bool) -> None:
    assert Row("x", "ms", 8.0, 2 * judged, judged, noise).met is met
