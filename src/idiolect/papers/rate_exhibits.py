"""The rates of PersA-FL's Table 1, measured beside the bounds of its theorems.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Table 1 and Theorems 1-3. Clients of `robust_location` have smooth,
nonconvex losses all of whose constants are known; step sizes are the theorems'. Five studies, each of a few pieces:

- rates: (1/T) sum_t ||grad F(w^t)||^2 against T, for several tau, b, alpha and nu, beside the bound;
- staleness: clients with exact gradients and runs that start at a stationary point, so that nothing hides what
  lateness adds;
- inner batches: where MAML ends up for several alpha and b;
- accuracy: where the Moreau envelope ends up for several nu, on clients with exact gradients;
- batches: where the Moreau envelope ends up for several b, its inner problem solved.

Where a run ends up is told by the means of grad F(w^t) over the third and over the last quarter of the run: their
product is the squared norm of what stays however long it runs, free of the fluctuations that fall with T.
"""

from typing import NamedTuple

from idiolect.errors import Interrupted
from idiolect.papers.exhibit import Exhibit, Findings, Request, Scale
from idiolect.papers.rate_claims import claims
from idiolect.papers.rate_pictures import pictures
from idiolect.papers.rate_pieces import SMOOTHNESS, Piece, result_of
from idiolect.papers.trajectories import Option

_SOLVED = 1e-4  # a nu below anything that batches add


class _Sizes(NamedTuple):
    """How much is run at a scale. As many taus, alphas and nus as each other: fewer shapes to compile programs for."""

    steps: tuple[int, ...]
    more_steps: tuple[int, ...]  # of FedAsync alone
    long: int  # T of the runs that look for a floor
    batches: tuple[int, ...]
    floor_batches: tuple[int, ...]
    late: tuple[int, ...]  # one fewer: the last setting has another alpha or nu
    very_late: tuple[int, ...]
    alphas: tuple[float, ...]  # in units of 1 / L
    accuracies: tuple[float, ...]
    options: tuple[Option, ...]  # whose staleness is studied
    inner_step_size: float = 0.25  # leaves the inner problem near nu


_QUICK = _Sizes((400, 1200, 3600), (), 3600, (1,), (1, 4), (0,), (0, 8), (0.4, 0.8), (0.01, 0.02), ("plain",), 0.5)
_DESK = _Sizes(
    steps=(1000, 3200, 10_000, 32_000),
    more_steps=(100_000,),
    long=64_000,
    batches=(1, 4),
    floor_batches=(1, 2, 4),
    late=(0, 1, 2, 4, 8),
    very_late=(0, 2, 4, 8, 16, 32),
    alphas=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    accuracies=(0.004, 0.006, 0.008, 0.012, 0.016, 0.024),
    options=("plain", "maml", "moreau"),
)
_SIZES = {
    "quick": _QUICK,
    "desk": _DESK,
    "paper": _DESK._replace(
        steps=(1000, 3200, 10_000, 32_000, 100_000, 320_000),
        more_steps=(1_000_000,),
        long=640_000,
        floor_batches=(1, 2, 4, 8, 16),
    ),
}


def plan(scale: str) -> list[Piece]:
    """All pieces of a scale, in the order they are run."""
    size, pieces = _SIZES[scale], []
    alphas = [alpha / SMOOTHNESS for alpha in size.alphas]
    knobs: dict[Option, tuple[float, float]] = {
        "plain": (0.0, 0.0),
        "maml": (alphas[0], alphas[-1]),
        "moreau": (size.accuracies[0], size.accuracies[-1]),
    }
    for option, (knob, other) in knobs.items():
        lanes = *((late, knob) for late in size.late), (0 if other else size.late[-1] + 1, other)
        steps = size.steps + (size.more_steps if option == "plain" else ())
        pieces += [Piece("rates", option, b, at, lanes) for b in size.batches for at in steps]
    for option in size.options:
        lanes = tuple((late, knobs[option][0]) for late in size.very_late)
        pieces += [Piece("staleness", option, 1, at, lanes) for at in size.steps]
    lanes = tuple((0, alpha) for alpha in alphas)
    pieces += [Piece("inner batches", "maml", b, size.long, lanes) for b in size.floor_batches]
    lanes = tuple((0, nu) for nu in size.accuracies)
    pieces += [Piece("accuracy", "moreau", 1, size.long, lanes, size.inner_step_size)]
    lanes = ((0, _SOLVED), *lanes[1:])
    sizes = size.floor_batches if scale != "quick" else size.batches  # a program less to compile
    return pieces + [Piece("batches", "moreau", b, size.long, lanes) for b in sizes]


def perform(request: Request) -> Findings:
    """Run what is not yet there, and decide the claims."""
    folder = request.out / f"persa-fl-table-1-{request.scale}"
    folder.mkdir(parents=True, exist_ok=True)
    pieces, results = plan(request.scale), []
    effort = sum(piece.steps for piece in pieces)
    for number, piece in enumerate(pieces):
        if request.stop():
            raise Interrupted
        request.progress(piece.name, sum(done.steps for done in pieces[:number]) / effort)
        results.append(result_of(piece, request.seeds, folder, hasty=request.scale == "quick"))
    return Findings(claims(results, request.seeds), pictures(results))


_FRESH = tuple(range(8, 24))  # the tests were made up with a view of seeds 0 to 7

TABLE_1 = Exhibit(
    name="persa-fl-table-1",
    source="PersA-FL, Table 1 and Theorems 1-3",
    shows="How fast the gradient of each method's cost falls, and what staleness, batches and inexact steps add to it.",
    scales={
        "quick": Scale("T up to 3600, one tau beside 0, batches of 1 and 4", tuple(range(4))),
        "desk": Scale("T up to 100 000, tau up to 8 (32 with exact gradients), batches of 1 to 4", _FRESH),
        "paper": Scale("T up to a million, batches of 1 to 16", tuple(range(32))),
    },
    perform=perform,
)
