"""Servers that hold out against a fifth of lying clients, decided by the numbers of `robust-digits` (`make slow`)."""

import pytest

from idiolect.interface import run

pytestmark = pytest.mark.slow


def test_a_fifth_of_flipped_updates_ruins_the_mean_and_not_the_robust_combinations(tmp_path):
    accidents_only = "screening.too_large=1e4"  # or else most of these lies would be refused for their length
    found = run("robust-digits", accidents_only, out=tmp_path / "run")
    algorithms, seeds = found.summary.algorithms, found.experiment.seeds
    for name in ("fedavg", "fedbuff", "per_fedavg"):
        ruined = algorithms[f"{name}-mean"]
        assert len(ruined.ended) == len(seeds) or ruined.participating["global"].mean < 0.5
        clean = algorithms[name].participating["personalized"]
        for kind in ("median", "trimmed", "clipped"):
            held = algorithms[f"{name}-{kind}"].participating["personalized"]
            assert held.mean > clean.mean - 0.05, f"{name}-{kind}"
