"""What a reader of PersA-FL's Fig. 2 sees to be stable, on runs made by hand: the curve, and not where it ends."""

import numpy as np
import pytest

from idiolect.evaluation.scores import Spread
from idiolect.experiments.recipe_files import load_recipe
from idiolect.papers import findings, stability_exhibit
from idiolect.papers.stability_exhibit import EXHIBIT, TRIALS, stray
from idiolect.papers.trials import experiment_of
from tests.exhibits.made import SEEDS, cell, finished, perform, verdicts

ZIGZAG = np.array([1.0, -1.0, -1.0, 1.0])  # no slope, no mean


def curve(label, seed, scores):
    """A run whose accuracy is this over time; no other column has it."""
    flat = cell(label, seed, dict.fromkeys(("0", "1", "10", "own"), 0.5), reports=({},) * len(scores))
    points = [
        point._replace(scores={"participating": {**point.scores["participating"], "10": Spread(score, 0.0, score, 1)}})
        for point, score in zip(flat.points, scores, strict=True)
    ]
    return flat._replace(points=points)


def test_what_is_still_learned_is_no_stray():
    rise = 0.4 + 0.05 * np.arange(9)
    assert stray(curve("a", 0, rise), "10") == pytest.approx(0, abs=1e-12)
    noise = np.random.default_rng(0).normal(size=9)
    times = np.stack([np.ones(9), np.arange(9)], axis=1)
    residual = noise - times @ np.linalg.lstsq(times, noise, rcond=None)[0]
    found = stray(curve("a", 0, rise + noise), "10")
    assert found == pytest.approx(np.sqrt(residual @ residual / 7)), "an unbiased variance: two degrees are the line's"
    assert stray(curve("a", 0, rise + noise), "own") == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("envelope", "verdict"), [(0.01, "holds"), (0.03, "fails"), (0.0201, "fails"), (0.019999, "holds")]
)
def test_whose_curve_strays_less_is_the_stabler_one_wherever_it_ends(envelope, verdict, monkeypatch):
    """The envelope's runs end far apart and MAML's at one place; that is not asked."""

    def run(trial):
        cells = []
        for seed in SEEDS:
            cells.append(curve("persa_fl_me", seed, 0.5 + 0.1 * seed + envelope * ZIGZAG))
            cells.append(curve("persa_fl_maml", seed, 0.6 + 0.02 * ZIGZAG))
        return finished(trial, cells)

    found = perform(monkeypatch, stability_exhibit, EXHIBIT, *(run(trial) for trial in TRIALS.values()))
    assert verdicts(found.claims) == [verdict] * 2
    assert found.claims[0].values["others"]["other"] == pytest.approx([0.02 * np.sqrt(2)] * 3)
    assert found.tables[0].rows[0][:2] == ["MNIST", "persa_fl_me"]


def test_less_than_a_quarter_of_a_point_is_excluded_where_the_interval_says_so(monkeypatch):
    def run(trial):
        calmer = dict(zip(SEEDS, (0.0004, -0.0005, 0.0001), strict=True))  # by chance, either way
        cells = [curve("persa_fl_me", seed, 0.5 + (0.02 - calmer[seed]) * ZIGZAG) for seed in SEEDS]
        return finished(trial, [*cells, *(curve("persa_fl_maml", seed, 0.5 + 0.02 * ZIGZAG) for seed in SEEDS)])

    found = perform(monkeypatch, stability_exhibit, EXHIBIT, *(run(trial) for trial in TRIALS.values()))
    assert verdicts(found.claims) == ["excluded"] * 2
    words = findings.texts()[EXHIBIT.name]
    assert words.keys() == TRIALS.keys()
    assert [claim.finding for claim in found.claims] == list(words.values())


@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS)
def test_settings_are_the_figure_s_and_seeds_are_fresh(trial):
    experiment = experiment_of(trial, "desk")
    figure = load_recipe(trial.sizes["desk"].recipe)
    lines = dict(zip(figure.labels, figure.lines, strict=True))
    assert experiment.labels == ["persa_fl_maml", "persa_fl_me"]
    assert experiment.lines == [lines[label] for label in experiment.labels]
    assert (experiment.problem, experiment.training, experiment.network) == (
        figure.problem,
        figure.training,
        figure.network,
    )
    assert set(experiment.seeds).isdisjoint([*figure.seeds, *figure.chosen.seeds])
    times = np.array(experiment.evaluation.times)
    assert (times[0], times[-1]) == (pytest.approx(2 / 3 * figure.horizon), figure.horizon)
    assert np.diff(times) == pytest.approx(figure.horizon / 3 / 12, abs=1e-5)
