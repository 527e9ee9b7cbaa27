"""Checks of a timeline's turns, all at once or block by block: times that make sense, and one turn at a time."""

from typing import TYPE_CHECKING

import numpy as np

from idiolect.errors import UserMistake

if TYPE_CHECKING:  # it checks itself when it is made
    from idiolect.network.timelines import Timeline


class TurnChecks:
    """Looks at the turns of a timeline, block by block, in the order of their offers."""

    def __init__(self) -> None:
        self._turns, self._offered = 0, -np.inf
        self._clients, self._ends = np.zeros(0, np.int32), np.zeros(0)  # when the last turn of each client so far ended

    def look_at(self, block: "Timeline") -> None:
        """Refuse turns whose times cannot be, or that begin before their client's last one has ended."""
        times = np.stack([block.offered, block.received, block.computed, block.arrived])
        wrong = ~np.isfinite(times).all(0) | (np.diff(times, axis=0) < 0).any(0) | (times[0] >= times[-1])
        if wrong.any():
            turn = int(np.argmax(wrong))
            raise UserMistake(
                f"timeline turn {self._turns + turn} (client {block.client[turn]}) has times "
                f"{times[:, turn].tolist()}; they must be finite and must not decrease from offered to arrived, and a "
                "turn must take time"
            )
        self._check_order(block)
        self._check_one_at_a_time(block)
        self._turns += block.turns

    def _check_order(self, block: "Timeline") -> None:
        before = np.append(self._offered, block.offered[:-1])
        if (block.offered < before).any():
            turn = int(np.argmax(block.offered < before))
            raise UserMistake(
                f"timeline turn {self._turns + turn} is offered at {block.offered[turn]}, before the turn that stands "
                "above it; turns must stand in the order of their offers"
            )
        self._offered = float(block.offered[-1])

    def _check_one_at_a_time(self, block: "Timeline") -> None:
        earlier = np.isin(self._clients, block.client)
        clients = np.concatenate([self._clients[earlier], block.client])
        offered = np.concatenate([np.full(earlier.sum(), -np.inf), block.offered])
        ends = np.concatenate([self._ends[earlier], block.arrived])
        order = np.lexsort((offered, clients))
        same = clients[order][1:] == clients[order][:-1]
        overlap = same & (offered[order][1:] < ends[order][:-1])
        if overlap.any():
            turn = int(order[1:][np.argmax(overlap)] - earlier.sum())
            raise UserMistake(
                f"timeline turn {self._turns + turn}: client {block.client[turn]} is offered the model at "
                f"{block.offered[turn]}, before its last upload has arrived; a client takes one turn at a time"
            )
        last = order[np.append(~same, True)]
        self._clients = np.concatenate([self._clients[~earlier], clients[last]])
        self._ends = np.concatenate([self._ends[~earlier], ends[last]])
