"""`findings.toml`: every text belongs to an exhibit and is asked for, and what it does not list is refused."""

import numpy as np
import pytest

from idiolect.errors import UserMistake
from idiolect.experiments.records import ReferenceRecord
from idiolect.papers import (
    findings,
    persa_fl_exhibits,
    quantizer_exhibits,
    qupel_exhibits,
    qupel_sizes,
    ranking_exhibits,
    rate_claims,
    rate_exhibits,
)
from idiolect.papers.exhibit import Request
from idiolect.papers.exhibits import EXHIBITS
from idiolect.papers.rate_pieces import Result
from tests.exhibits.made import SEEDS, made

DESK = {
    "persa-fl-fig-2b": (persa_fl_exhibits, persa_fl_exhibits.MNIST),
    "persa-fl-fig-2c": (persa_fl_exhibits, persa_fl_exhibits.CIFAR),
    "qupel-table-1": (quantizer_exhibits, qupel_sizes.ALONE),
    "qupel-table-1-levels": (quantizer_exhibits, qupel_sizes.LEVELS),
    "qupel-table-2": (qupel_exhibits, qupel_sizes.TOGETHER),
    "qupel-fig-1": (qupel_exhibits, qupel_sizes.TOGETHER),
    "qupel-table-3": (qupel_exhibits, qupel_sizes.TOGETHER),
    "search-ranking": (ranking_exhibits, ranking_exhibits.RUN),
}
IN_CLAIMS = "memrl-fig-1"  # of two runs: tests/exhibits/test_claims.py has who asks for them
IN_RATES = "persa-fl-table-1"  # whose texts depend on the numbers, and not on the scale
IN_STABILITY = "persa-fl-fig-2-stability"  # of two runs that change over time: see tests/exhibits/test_stability.py
IN_ROUNDS = "per-fedavg-theorem-4-5"  # likewise; see tests/paper/test_per_fedavg_rates.py


def test_every_text_belongs_to_an_exhibit():
    assert set(findings.texts()) <= set(EXHIBITS)
    assert set(findings.texts()) == {*DESK, IN_RATES, IN_CLAIMS, IN_ROUNDS, IN_STABILITY}


@pytest.mark.parametrize("name", DESK)
def test_an_exhibit_asks_for_every_text_on_its_claims_and_tells_it_at_the_desk_only(name, monkeypatch):
    """In this run everybody scores alike, but for QuPeL with 3 bits, so that no claim holds."""
    module, trial = DESK[name]
    asked = set()

    def noted(exhibit, claim):
        asked.add((exhibit, claim))
        return f"{exhibit}: {claim}"

    forests = [
        ReferenceRecord(forest, seed, {metric: {0: 0.5} for metric in ("accuracy", "top-1 accuracy")})
        for forest in ("forest", "own_forest")
        for seed in SEEDS
    ]

    def scores(label, seed):
        return dict.fromkeys(("0", "1", "10", "own"), 0.4 if label == "qupel-3" else 0.5)

    ran = made(trial, scores, clients=10, references=forests)
    monkeypatch.setattr(findings, "finding", noted)
    monkeypatch.setattr(module, "carry_out", lambda trial, request: ran)
    exhibit = EXHIBITS[name]
    at_desk = exhibit.perform(Request("desk", exhibit.scales["desk"].seeds, None)).claims
    assert asked == {(name, claim) for claim in findings.texts()[name]}
    assert {claim.finding for claim in at_desk} - {""} == {f"{name}: {claim}" for claim in findings.texts()[name]}
    for request in (Request("desk", (77, 78), None), Request("paper", exhibit.scales["desk"].seeds, None)):
        assert not any(claim.finding for claim in exhibit.perform(request).claims)


def test_the_rates_ask_for_every_text_on_them(monkeypatch):
    asked = set()
    monkeypatch.setattr(rate_claims, "_found", lambda claim: asked.add(claim) or claim)
    seeds, results = (0, 1, 2), []
    for piece in rate_exhibits.plan("quick"):
        tau, knob = (np.array(column, float) for column in zip(*piece.lanes, strict=True))
        wiggle = 1 + 0.01 * np.array([[-1.0], [0.0], [1.0]])  # so that there are intervals
        results.append(Result(piece, (1 + tau) / piece.steps * wiggle, (knob + 0.1) / piece.batch_size * wiggle))
    rate_claims.claims(results, seeds)
    assert asked <= set(findings.texts()[IN_RATES])
    assert {"inner powers", "no batches"} <= asked


@pytest.mark.parametrize(
    ("exhibit", "claim", "says"),
    [
        ("persa-fl-fig-2d", "persa_fl_me", "exhibit with findings is 'persa-fl-fig-2d' .did you mean"),
        ("persa-fl-fig-2b", "persa_fl_mee", "claim of persa-fl-fig-2b is 'persa_fl_mee' .did you mean 'persa_fl_me'"),
        ("per-fedavg-fig-1", "persa_fl_me", "exhibit with findings is 'per-fedavg-fig-1'"),
    ],
)
def test_what_the_file_does_not_list_is_refused(exhibit, claim, says):
    with pytest.raises(UserMistake, match=says):
        findings.finding(exhibit, claim)


@pytest.mark.parametrize(
    "entries",
    [
        [{"claims": ["a"], "text": "x"}, {"claims": ["b", "a"], "text": "y"}],
        [{"claim": "a", "text": "x"}],
        [{"claims": ["a"], "text": "x", "also": "y"}],
    ],
)
def test_the_file_is_checked_when_it_is_read(entries):
    with pytest.raises(ValueError, match=r"two texts|must have claims and text"):
        findings.by_claim("exhibit", entries)
