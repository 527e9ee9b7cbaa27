"""Claims of PersA-FL's Fig. 2b and 2c on runs made by hand, in both directions."""

import pytest

from idiolect.papers import persa_fl_exhibits
from tests.exhibits.made import made, noise, perform, verdicts


@pytest.mark.parametrize(
    ("me", "maml", "expected"),
    [
        (0.95, 0.93, ["holds", "holds", "holds", "holds"]),
        (0.95, 0.901, ["holds", "not shown", "holds", "holds"]),
        (0.89, 0.95, ["fails", "holds", "holds", "holds"]),
        (0.95, 0.79, ["holds", "fails", "holds", "fails"]),
    ],
)
def test_persa_fl_fig_2b_the_best_of_the_others_counts(me, maml, expected, monkeypatch):
    best = {"persa_fl_me": me, "persa_fl_maml": maml, "fedasync": 0.9, "fedbuff": 0.8}

    def accuracies(label, seed):
        score = best.get(label, 0.7) + noise(seed) * (1 if label in ("fedasync", "persa_fl_me") else -1)
        return dict.fromkeys(("0", "1", "10", "own"), score)

    findings = perform(
        monkeypatch, persa_fl_exhibits, persa_fl_exhibits.FIG_2B, made(persa_fl_exhibits.MNIST, accuracies)
    )
    assert verdicts(findings.claims) == expected
    assert [row[0] for row in findings.tables[0].rows] == findings_labels()


def findings_labels():
    rounds = ["local", "fedavg", "fedprox", "scaffold", "per_fedavg", "pfedme"]
    return [*rounds, "fedbuff", "fedasync", "persa_fl_maml", "persa_fl_me"]


def test_persa_fl_fig_2c_holds_those_with_as_many_gradients_against_each_other(monkeypatch):
    """The envelope leads whoever takes ten plain steps, and not whoever takes a hundred."""
    scores = {
        "persa_fl_me": 0.9,
        "persa_fl_maml": 0.6,
        "local-100": 0.92,
        "fedasync-100": 0.93,
        "persa_fl_maml-33": 0.95,
    }

    def accuracies(label, seed):
        return dict.fromkeys(("0", "1", "10", "own"), scores.get(label, 0.7) + noise(seed) * (label == "persa_fl_me"))

    findings = perform(
        monkeypatch, persa_fl_exhibits, persa_fl_exhibits.FIG_2C, made(persa_fl_exhibits.CIFAR, accuracies)
    )
    assert verdicts(findings.claims) == ["holds", "fails", "holds", "fails", "fails", "holds"]
