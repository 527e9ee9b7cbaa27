"""How long things take: every law has the mean, the variation and the shape it promises, client by client.

Samples are large and seeds fixed; a tolerance is five standard errors, or a p-value of one in a million.
"""

import numpy as np
import pytest
from scipy import stats

from idiolect.errors import UserMistake
from idiolect.network.delays import Delay, Devices, Network

DRAWS = 40_000
FIXED = Delay("fixed", 1.0)


def devices(network: Network, clients: int = DRAWS, seed: int = 0) -> Devices:
    return Devices(network, clients, np.random.default_rng(seed))


def draw(delay: Delay) -> np.ndarray:
    """Independent draws of a law: one turn each of many clients of the same pace."""
    return devices(Network(compute=delay, spread=0.0)).turns(np.arange(DRAWS)).compute


def assert_law(sample: np.ndarray, law: stats.rv_continuous) -> None:
    assert stats.kstest(sample, law.cdf).pvalue > 1e-6


def lognormal(mean: float, variation: float) -> stats.rv_continuous:
    sigma = np.sqrt(np.log(1 + variation**2))
    return stats.lognorm(sigma, scale=mean * np.exp(-(sigma**2) / 2))


def test_a_law_of_which_nothing_is_said_has_mean_one_and_half_of_it_as_deviation():
    assert Delay("gamma") == Delay("gamma", mean=1.0, variation=0.5)
    assert Delay() == Delay("exponential")


@pytest.mark.parametrize("variation", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("mean", [0.3, 7.0])
@pytest.mark.parametrize("law", ["fixed", "exponential", "lognormal", "gamma"])
def test_every_law_has_its_mean_and_its_variation(law, mean, variation):
    sample = draw(Delay(law, mean, variation))
    deviation = mean * {"fixed": 0.0, "exponential": 1.0}.get(law, variation)
    assert abs(sample.mean() - mean) <= 5 * deviation / np.sqrt(DRAWS) + 1e-12  # sums are rounded
    error_of_variance = np.sqrt(((sample - sample.mean()) ** 4).mean() / DRAWS)
    assert abs(sample.var() - deviation**2) <= 5 * error_of_variance + 1e-12
    assert sample.min() > 0


@pytest.mark.parametrize(
    ("delay", "law"),
    [
        (Delay("exponential", 2.0), stats.expon(scale=2.0)),
        (Delay("gamma", 2.0, 0.5), stats.gamma(4.0, scale=0.5)),
        (Delay("lognormal", 2.0, 0.5), lognormal(2.0, 0.5)),
    ],
)
def test_every_law_has_its_shape(delay, law):
    assert_law(draw(delay), law)


def test_every_phase_follows_its_own_law():
    phases = [Delay("fixed", mean) for mean in (1.0, 2.0, 3.0, 4.0)]
    turns = devices(Network(*phases, spread=0.0), clients=3).turns(np.arange(3))
    for phase, mean in zip((turns.download, turns.compute, turns.upload, turns.idle), (1, 2, 3, 4), strict=True):
        np.testing.assert_array_equal(phase, mean)


def test_a_client_keeps_its_own_pace_and_paces_are_lognormal_with_mean_one():
    population = devices(Network(compute=FIXED, spread=0.5))
    first, second = (population.turns(np.arange(DRAWS)).compute for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert_law(first, lognormal(1.0, 0.5))


def test_a_client_s_pace_slows_download_compute_and_upload_alike():
    network = Network(FIXED, FIXED, FIXED, spread=0.5)
    turns = devices(network, clients=50).turns(np.arange(50))
    np.testing.assert_array_equal(turns.download, turns.compute)
    np.testing.assert_array_equal(turns.download, turns.upload)
    assert len(np.unique(turns.download)) == 50


@pytest.mark.parametrize("spread", [0.0, 0.8])
def test_every_client_s_mean_upload_is_four_to_six_times_its_mean_download(spread):
    """PersA-FL, Sec. 5. With fixed times the one turn drawn is the client's mean."""
    turns = devices(Network(download=FIXED, spread=spread)).turns(np.arange(DRAWS))
    ratio = turns.upload / turns.download
    assert ratio.min() >= 4
    assert ratio.max() <= 6
    assert_law(ratio, stats.uniform(4, 2))


def test_a_client_keeps_its_upload_ratio_over_random_turns():
    clients, turns = 5, 20_000
    population = devices(Network(upload_ratio=(2.0, 9.0), spread=0.5), clients)
    drawn = [population.turns(np.arange(clients)) for _ in range(turns)]
    uploads, downloads = (np.stack([getattr(turn, phase) for turn in drawn]) for phase in ("upload", "download"))
    ratio = uploads.mean(0) / downloads.mean(0)
    error = 5 * ratio * np.sqrt(2 / turns)  # both means are of exponentials, each off by 1 / sqrt(turns)
    assert (ratio > 2 - error).all()
    assert (ratio < 9 + error).all()
    halves = uploads[: turns // 2].mean(0) / uploads[turns // 2 :].mean(0)
    np.testing.assert_allclose(halves, 1, atol=5 * np.sqrt(4 / turns))


def test_an_upload_law_of_its_own_overrides_the_ratio():
    turns = devices(Network(upload=Delay("fixed", 0.25), spread=0.0), clients=4).turns(np.arange(4))
    np.testing.assert_array_equal(turns.upload, 0.25)


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.6])
def test_dropout_is_the_share_of_turns_that_are_lost(dropout):
    lost = 1 - devices(Network(dropout=dropout)).turns(np.arange(DRAWS)).delivered.mean()
    assert abs(lost - dropout) <= 5 * np.sqrt(dropout * (1 - dropout) / DRAWS)


def test_some_clients_may_take_a_turn_without_the_others():
    population = devices(Network(compute=FIXED, spread=0.5), clients=6)
    everyone = population.turns(np.arange(6)).compute
    np.testing.assert_array_equal(population.turns(np.array([4, 1])).compute, everyone[[4, 1]])


def test_an_upload_ratio_upside_down_is_refused():
    with pytest.raises(UserMistake, match=r"network\.upload_ratio is \[6\.0, 4\.0\]"):
        devices(Network(upload_ratio=(6.0, 4.0)))
