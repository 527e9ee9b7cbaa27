"""The exhibits that run programs of their own and no recipe: which programs, and what those take.

A program is run for a few steps, which compiles it, and then for as many and for twice as many again: the difference is
what steps take, and what the first run took beyond its steps is paid once. Programs of one kind are run once.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from idiolect.papers import (
    proposition_exhibit,
    proposition_pieces,
    rate_exhibits,
    rate_pieces,
    round_exhibits,
    round_pieces,
    theorem_exhibit,
)
from idiolect.papers.trajectories import BLOCK


class Program(NamedTuple):
    """One program of an exhibit, for all seeds."""

    kind: Hashable  # a step of all programs of a kind takes as long
    lanes: int
    steps: int
    few: int  # steps to watch
    local_steps: int  # in each of them
    run: Callable[[int], object]  # so many steps


class Reckoned(NamedTuple):
    """What programs take together."""

    lanes: int
    steps: int  # of all lanes
    local_steps: int  # that come one after the other
    compile_seconds: float
    seconds: float  # with those


Seeds = tuple[int, ...]


def _rates(scale: str, seeds: Seeds) -> list[Program]:
    def program(piece: rate_pieces.Piece) -> Program:
        kind = piece.study, piece.option, piece.batch_size, piece.inner_step_size, len(piece.lanes)
        lanes, local = len(piece.lanes), rate_pieces.LOCAL_STEPS
        return Program(
            kind, lanes, piece.steps, 10 * BLOCK, local, lambda t: rate_pieces.run_piece(piece._replace(steps=t), seeds)
        )

    return [program(piece) for piece in rate_exhibits.plan(scale)]


def _rounds(scale: str, seeds: Seeds) -> list[Program]:
    def program(piece: round_pieces.RoundPiece) -> Program:
        kind = piece.derivative, piece.batch_size, len(piece.lanes)
        return Program(
            kind,
            len(piece.lanes),
            piece.steps,
            10 * BLOCK,
            1,
            lambda steps: round_pieces.run_rounds(piece._replace(steps=steps), seeds),
        )

    return [program(piece) for piece in round_exhibits.plan(scale)]


def _proposition(scale: str, seeds: Seeds) -> list[Program]:
    def program(piece: proposition_pieces.Piece) -> Program:
        kind = piece.agents, len(piece.links)
        return Program(kind, len(piece.links), piece.times[-1], 1000, 1, lambda rounds: piece.run(seeds, rounds))

    return [program(piece) for piece in proposition_pieces.plan(scale)]


def _theorem(scale: str, seeds: Seeds) -> list[Program]:
    return [
        Program((agents,), 1, rounds, 400, 1, partial(theorem_exhibit.measure, agents, seeds=seeds))
        for agents, rounds in theorem_exhibit.CELLS[scale]
    ]


PROGRAMS: dict[str, Callable[[str, Seeds], list[Program]]] = {
    rate_exhibits.TABLE_1.name: _rates,
    round_exhibits.THEOREM_4_5.name: _rounds,
    proposition_exhibit.NAME: _proposition,
    theorem_exhibit.NAME: _theorem,
}


def reckon(programs: Sequence[Program], seeds: int) -> Reckoned:
    """Watch every kind of program, and add up what all of them take."""
    known: dict[Hashable, tuple[float, float]] = {}
    compiling = stepping = 0.0
    for program in programs:
        if program.kind not in known:
            known[program.kind] = _watched(program)
            compiling += known[program.kind][0]
        stepping += program.steps * known[program.kind][1]
    return Reckoned(
        sum(program.lanes for program in programs),
        sum(program.steps * program.lanes for program in programs) * seeds,
        sum(program.steps * program.local_steps for program in programs),
        compiling,
        compiling + stepping,
    )


def _watched(program: Program) -> tuple[float, float]:
    """Seconds to compile a program, and seconds of a step."""
    stamps = [time.perf_counter()]
    for steps in (program.few, program.few, 2 * program.few):
        program.run(steps)
        stamps.append(time.perf_counter())
    first, once, twice = (after - before for before, after in pairwise(stamps))
    step = max(twice - once, 0.0) / program.few
    return max(first - program.few * step, 0.0), step
