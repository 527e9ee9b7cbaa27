"""Theorem 4.5 of Per-FedAvg, measured: its rate, what stays, and the lemmas that it rests on.

A. Fallah, A. Mokhtari, A. Ozdaglar. Personalized federated learning: a meta-learning approach. 2020, Theorem 4.5, its
lemmas and (22a, b). Clients of `robust_location` have smooth, nonconvex losses all of whose constants are known; every
seed has clients and a start of its own, and step sizes are the theorem's. Four studies, each of a few pieces:

- rates: clients that agree, with exact gradients, so that the theorem's first term is all there is, for several tau
  and K: with one beta for all tau, and with the largest that each admits;
- batches: clients that differ, for several batch sizes and numbers of active clients;
- closeness: clients with exact gradients, nearer to each other and farther apart (by measured Wasserstein distances);
- approximations: where the first-order and the Hessian-free version end up beside the exact one, without noise.

And two measurements without runs: the noise of the estimates, and how unlike each other clients are.
"""

from typing import NamedTuple

from idiolect.errors import Interrupted
from idiolect.papers.exhibit import Exhibit, Findings, Request, Scale
from idiolect.papers.round_claims import claims
from idiolect.papers.round_measures import NoiseCase, noise_of, unlike
from idiolect.papers.round_pictures import pictures
from idiolect.papers.round_pieces import People, RoundPiece, Setting, result_of

_ALIKE = People(0.0)
_NOISY = People(0.3, 0.3)
_APART = People(0.5)
_WHO = (Setting(1), Setting(4), Setting(8), Setting(1, 2), Setting(1, 1), Setting(4, 2), Setting(4, 1), Setting(8, 1))


class _Sizes(NamedTuple):
    """How much is run at a scale. All pieces have as many settings: fewer shapes to compile programs for."""

    steps: tuple[int, ...]  # tau K of the rates
    long: int  # of the other studies
    batches: tuple[int, ...]
    apart: tuple[float, ...]  # heterogeneities
    draws: int  # of an estimate


_SIZES = {
    "quick": _Sizes((4000, 8000), 2000, (1,), (0.1, 0.4), 500),
    "desk": _Sizes((8000, 16_000, 32_000), 8000, (1, 4, 16), (0.05, 0.1, 0.2, 0.4), 4000),
    "paper": _Sizes((8000, 32_000, 128_000), 64_000, (1, 4, 16, 64), (0.025, 0.05, 0.1, 0.2, 0.4), 40_000),
}


def plan(scale: str) -> list[RoundPiece]:
    """All pieces of a scale, in the order they are run."""
    size = _SIZES[scale]
    taus = (1, 2, 4, 8)
    lanes = *(Setting(tau, longest=8) for tau in taus), *(Setting(tau) for tau in taus)
    pieces = [RoundPiece("rates", _ALIKE, "exact", 1, steps, lanes) for steps in size.steps]
    pieces += [RoundPiece("batches", _NOISY, "exact", b, size.long, _WHO) for b in size.batches]
    pieces += [RoundPiece("closeness", People(far), "exact", 1, size.long, _WHO) for far in size.apart]
    lanes = tuple(Setting(tau, alpha=alpha) for tau in (1, 4) for alpha in (0.05, 0.1, 0.2, 0.4))
    pieces += [RoundPiece("approximations", _APART, how, 1, size.long, lanes) for how in ("exact", "first_order")]
    lanes = tuple(Setting(tau, alpha=0.8, delta=delta) for tau in (1, 4) for delta in (0.25, 0.5, 1.0, 2.0))
    pieces += [RoundPiece("approximations", _APART, "hessian_free", 1, size.long, lanes)]
    if scale != "quick":  # with noise, for the theorem alone
        pieces += [RoundPiece("batches", _NOISY, how, 1, size.long, _WHO) for how in ("first_order", "hessian_free")]
    return pieces


def cases(scale: str) -> list[NoiseCase]:
    """The estimates whose noise is measured at a scale."""
    found = [NoiseCase("exact", b, alpha) for b in _SIZES[scale].batches[:2] for alpha in (0.25, 1.0)]
    found += [NoiseCase("first_order", 1, alpha) for alpha in (0.25, 1.0)]
    return found + [NoiseCase("hessian_free", 1, 1.0, delta) for delta in (0.01, 0.03, 0.1, 0.3, 1.0)]


def perform(request: Request) -> Findings:
    """Run what is not yet there, and decide the claims."""
    folder = request.out / f"{THEOREM_4_5.name}-{request.scale}"
    folder.mkdir(parents=True, exist_ok=True)
    pieces, results, size = plan(request.scale), [], _SIZES[request.scale]
    hasty = request.scale == "quick"
    effort = sum(piece.steps for piece in pieces)
    for number, piece in enumerate(pieces):
        if request.stop():
            raise Interrupted
        request.progress(piece.name, sum(done.steps for done in pieces[:number]) / effort)
        results.append(result_of(piece, request.seeds, folder, hasty))
    noises = [noise_of(case, _NOISY, request.seeds, size.draws, folder, hasty) for case in cases(request.scale)]
    people = [unlike(who, request.seeds) for who in (*map(People, size.apart), _NOISY)]
    return Findings(claims(results, noises, people, request.seeds), pictures(results, noises, people))


_FRESH = tuple(range(20, 32))  # the claims were made up with a view of seeds 0 to 3

THEOREM_4_5 = Exhibit(
    name="per-fedavg-theorem-4-5",
    source="Per-FedAvg, Theorem 4.5",
    shows="How fast the gradient of Per-FedAvg's cost falls, what noise, diversity and approximations leave of it, and "
    "the lemmas behind.",
    scales={
        "quick": Scale("tau K up to 8000, tau up to 8, 5 clients, batches of 1", tuple(range(4))),
        "desk": Scale("tau K up to 32 000, tau up to 8, 1 to 5 of 5 clients active, batches of 1 to 16", _FRESH),
        "paper": Scale("tau K up to 128 000, batches of 1 to 64", tuple(range(32))),
    },
    perform=perform,
)
