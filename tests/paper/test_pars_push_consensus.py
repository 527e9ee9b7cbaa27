"""PARS-Push, Lemma 5: its constants, and an example on paper that the printed bound does not hold for."""

import math

import pytest

from idiolect import theory
from idiolect.errors import UserMistake


def test_the_constants_are_those_of_the_lemma():
    """n = 2, Gamma_s = 1: gamma = 1/4, n gamma^6 = 2 / 4096."""
    found = theory.consensus_constants(agents=2, contact_period=1)
    assert math.exp(found.log_weight) == pytest.approx(1 / 4)
    assert found.factor == pytest.approx(1 / (1 - 2 / 4096))
    assert found.decay == pytest.approx((1 - 2 / 4096) ** (1 / 4))


def test_the_bound_adds_up_what_steps_leave():
    constants = theory.Consensus(math.log(0.25), 2.0, 0.5)
    printed = theory.consensus_bound(constants, 8.0, [4.0, 2.0], lemma_5="printed")
    assert printed == pytest.approx(2 * (0.25 * 8 + 0.25 * 4 + 0.5 * 2))
    assert theory.consensus_bound(constants, 8.0, [4.0, 2.0]) == pytest.approx(4 * printed)
    assert theory.consensus_bound(constants, 0.0, []) == 0.0


def test_as_printed_it_does_not_hold():
    """Two agents at 0 that send every round; every message is a round under way, and the first of agent 1 is lost.

    Round 0: y = (1/2, 1/2). Round 1: agent 0 has heard nothing, y_0 = 1/4; agent 1 takes in 1/2. In round 2 agent 0
    steps by Delta = 1: x_0 = -1, z_0 was 0; then x_0 = -1/2, y_0 = 1/8 before it takes anything in. If that message is
    late as well, z_0 = -4, the average is -1/2, and the two are 3.5 apart: the bound is delta lambda = 1, to rounding.
    """
    y = 1.0
    for _ in range(3):
        y /= 2
    apart = abs(-(1 / 2) / y - (-1 / 2))
    assert apart == 3.5
    constants = theory.consensus_constants(2, theory.contact_period(gamma_w=1, gamma_d=2, gamma_f=1))
    assert theory.consensus_bound(constants, 0.0, [0.0, 0.0, 1.0], lemma_5="printed") < apart
    assert theory.consensus_bound(constants, 0.0, [0.0, 0.0, 1.0]) > apart


def test_mistakes_are_told():
    with pytest.raises(UserMistake, match="agents is 1, but must be at least 2"):
        theory.consensus_constants(1, 3)
