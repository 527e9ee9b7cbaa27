"""Weights under running sums: those that hear keep theirs, and those that only send lose it."""

import numpy as np
import pytest

from idiolect.errors import UserMistake
from idiolect.network import rounds, topology
from idiolect.network.round_tables import check_weights

PAIR = topology(2, [(0, 1), (1, 0)])
AWAKE = np.ones((200, 2), bool)


def messages(late=1, senders=((0, 1), (1, 0))):
    return [(a, b, t, t + late) for t in range(200 - late) for a, b in senders]


@pytest.mark.parametrize("late", [1, 3])
def test_agents_that_hear_each_other_keep_their_weights(late):
    check_weights(rounds(PAIR, AWAKE, messages(late)))


def test_an_agent_that_only_sends_loses_half_of_its_weight_in_every_round():
    """2^-40 is the first power of a half below 1e-12; the rounds count from 0."""
    with pytest.raises(UserMistake, match=r"agent 0's weight y falls to 9\.09e-13 in round 39"):
        check_weights(rounds(PAIR, AWAKE, messages(senders=((0, 1),))))


def test_of_two_messages_that_come_together_the_newest_counts_alone():
    """Agent 1 sends in rounds 0 and 1 and sleeps from then on; both arrive in round 2.

    The second says 1/2 + 1/4, which holds what the first said. So y is 1/8 + 3/4, and falls to 7/8 2^-40.
    """
    awake = AWAKE.copy()
    awake[2:, 1] = False
    with pytest.raises(UserMistake, match=r"agent 0's weight y falls to 7\.96e-13 in round 42"):
        check_weights(rounds(PAIR, awake, [(1, 0, 0, 2), (1, 0, 1, 2)]))
