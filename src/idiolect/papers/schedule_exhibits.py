"""PersA-FL, Fig. 1 and 2a: who works when, with rounds and without. No learning: these need nothing but timelines."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from idiolect.contracts import Schedule
from idiolect.network import Delay, Network, Timeline, active_share, draw_timeline
from idiolect.network.timelines import closing_turns
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Scale, Table
from idiolect.papers.verdicts import above, everywhere
from idiolect.report.page import Picture
from idiolect.report.style import labelled, style

_SEEDS = tuple(range(10))
_ROUNDS, _FREE = Schedule(rounds=True), Schedule(rounds=False)
_STEPS = 3  # Q in Fig. 1
_SOME_COMPUTING = Network(compute=Delay("fixed", 1.0))  # so that Fig. 1's local updates can be seen
_GRID = 400
_IDLE = (0.0, 0.5, 1.5, 3.0, 6.0)  # mean idle times, in mean downloads; 1.5 is a network's default
_NODES = 24  # of the quadrature over clients


class Both(NamedTuple):
    """The same devices for the same time, in rounds and without, seed by seed; `until` is where to stop looking."""

    synchronous: Sequence[Timeline]
    asynchronous: Sequence[Timeline]
    clients: int
    until: float


def draw(network: Network, clients: int, until: float, seeds: Sequence[int]) -> Both:
    """Timelines that go on beyond the end of what is looked at, so that turns that are cut off count as well."""
    sync, free = (
        [draw_timeline(network, list(range(clients)), schedule, horizon=2 * until, seed=seed) for seed in seeds]
        for schedule in (_ROUNDS, _FREE)
    )
    return Both(sync, free, clients, until)


def updates(table: Timeline, until: float) -> int:
    """How often the server's model has changed by then: with rounds, when they close."""
    closing = closing_turns(table)
    moments = table.arrived[closing] if len(closing) else table.arrived[table.delivered]
    return int((moments <= until).sum())


def busy(table: Timeline, clients: int, until: float) -> float:
    """The share of the clients' time that they spend downloading, computing or uploading."""
    spent = np.minimum(table.arrived, until) - np.minimum(table.offered, until)
    return float(spent.sum()) / (clients * until)


def share_of_client(network: Network, pace: float, ratio: float) -> float:
    """The share of its time that a client works in the long run, with its own pace and upload ratio.

    Turns and idle times alternate, independent and alike: by renewal theory the share is E[turn] / E[turn + idle],
    whatever the laws of the delays are (S. M. Ross. Introduction to Probability Models. Prop. 7.4).
    """
    upload = ratio * network.download.mean if network.upload is None else network.upload.mean
    turn = pace * (network.download.mean + network.compute.mean + upload)
    return turn / (turn + network.idle.mean)


def share_of(network: Network) -> float:
    """The same, in the mean over clients: paces are lognormal with mean 1, upload ratios uniform."""
    points, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    sigma = np.sqrt(np.log1p(network.spread**2))
    paces, chances = np.exp(sigma * points - sigma**2 / 2), weights / weights.sum()
    places, parts = np.polynomial.legendre.leggauss(_NODES)
    low, high = network.upload_ratio
    ratios = low + (high - low) * (places + 1) / 2
    table = np.array([[share_of_client(network, pace, ratio) for ratio in ratios] for pace in paces])
    return float(chances @ table @ (parts / parts.sum()))


def _idling() -> Table:
    """What share of the clients is active, by how long they idle, which the paper does not print."""
    rows = []
    for mean in _IDLE:
        network = Network(idle=Delay(mean=mean))
        said = " (as printed: nothing is said of idling)" if not mean else ""
        said = " (the default here)" if network == Network() else said
        rows.append([f"{mean:g}{said}", f"{share_of(network):.3f}"])
    title = "The share of active clients in the long run, E[turn] / E[turn + idle], by the mean idle time"
    return Table(title, ["mean idle time, in mean downloads", "active clients"], rows)


def _shares(both: Both) -> tuple[list[float], list[float]]:
    """Of the synchronous and of the asynchronous timelines, for each seed."""
    sync, free = (
        [busy(table, both.clients, both.until) for table in tables] for tables in (both.synchronous, both.asynchronous)
    )
    return sync, free


def fig_1_claims(both: Both, seeds: Sequence[int]) -> list[Claim]:
    """More updates, and less idleness."""
    often = [[float(updates(table, both.until)) for table in tables] for tables in both[:2]]
    sync, free = _shares(both)
    return [
        above(
            "Without waiting the server is updated more often within the same time",
            often[1],
            often[0],
            seeds,
            paper="an update per arrival, not per round",
        ),
        above(
            "Without waiting clients idle for less of the time",
            [1 - share for share in free],
            [1 - share for share in sync],
            seeds,
            paper="idle gaps only with rounds",
            lower=True,
        ),
    ]


def _fig_1(request: Request) -> Findings:
    both = draw(_SOME_COMPUTING, 5, 40.0, request.seeds)
    caption = (
        f"Five clients with Q = {_STEPS} local updates each turn (seed {request.seeds[0]}): the model is downloaded, "
        "the updates are computed, the result is uploaded. Grey lines: the server's model changes. Above in rounds, "
        "where the server waits for all of them; below without."
    )
    return Findings(fig_1_claims(both, request.seeds), [Picture(_gantt(both), caption)])


def _gantt(both: Both) -> go.Figure:
    figure = make_subplots(
        rows=2, shared_xaxes=True, vertical_spacing=0.1, subplot_titles=["synchronous", "asynchronous"]
    )
    for row, table in enumerate((both.synchronous[0], both.asynchronous[0]), start=1):
        phases = {
            "download": (table.offered, table.received, 4),
            f"{_STEPS} local updates": (table.received, table.computed, 1),
            "upload": (table.computed, table.arrived, 0),
        }
        for name, (begin, end, number) in phases.items():
            figure.add_bar(
                base=begin, x=end - begin, y=table.client, orientation="h", name=name, legendgroup=name,
                showlegend=row == 1, marker={"color": style(number)["color"]}, row=row, col=1,
            )  # fmt: skip
        closing = closing_turns(table)
        for moment in table.arrived[closing] if len(closing) else table.arrived[table.delivered]:
            if moment <= both.until:
                figure.add_vline(moment, line={"color": "#999", "width": 1}, row=row, col=1)
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(range=[0, both.until])
    figure.update_yaxes(title="client", dtick=1, autorange="reversed")
    labelled(figure, "Communication and update schedule", "", "client").update_layout(height=560)
    return figure.update_xaxes(title="virtual time", row=2, col=1)


def fig_2a_claims(both: Both, seeds: Sequence[int]) -> list[Claim]:
    """Near 80 %, and far more than with rounds."""
    sync, free = _shares(both)
    return [
        everywhere(
            "With asynchronous updates about 80 % of the clients are active",
            {"asynchronous": free},
            seeds,
            what=f"the mean share over time, which the idle time decides: the default of {Network().idle.mean:g} mean "
            f"downloads was chosen for it and gives {share_of(Network()):.3f} in the long run (renewal theory); the "
            f"delays as printed, without idling, give {share_of(Network(idle=Delay(mean=0.0))):.3f}",
            least=0.7,
            most=0.9,
            paper="80 %",
        ),
        above(
            "The share of active clients is higher than with synchronous updates",
            free,
            sync,
            seeds,
            paper="higher in the figure",
        ),
        everywhere(
            "It is considerably higher: at least twice as high",
            {"ratio": [mine / theirs for mine, theirs in zip(free, sync, strict=True)]},
            seeds,
            what="the mean share over time, asynchronous over synchronous",
            least=2.0,
            paper="considerably higher in the figure",
        ),
    ]


def _fig_2a(request: Request) -> Findings:
    both = draw(Network(), 30, 150.0, request.seeds)
    caption = (
        f"Clients that download, compute or upload, as a share of all 30 (seed {request.seeds[0]}); dotted: mean over "
        "time and seeds. The network is that of the recipes persafl-mnist and persafl-cifar10. How many are active is "
        "built in: the paper prints uploads of four to six downloads and no idle time, and ours is a quarter of a turn."
    )
    return Findings(fig_2a_claims(both, request.seeds), [Picture(_activity(both), caption)], [_idling()])


def _activity(both: Both) -> go.Figure:
    times, figure = np.linspace(0, both.until, _GRID), go.Figure()
    named = {"synchronous": both.synchronous, "asynchronous": both.asynchronous}
    for number, ((name, tables), shares) in enumerate(zip(named.items(), _shares(both), strict=True)):
        share = active_share(tables[0], both.clients, times)
        figure.add_scatter(x=times, y=share, name=name, line=style(number), mode="lines")
        figure.add_hline(float(np.mean(shares)), line={"color": style(number)["color"], "dash": "dot"})
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    return labelled(figure, "Share of active clients", "virtual time", "active clients")


def _scales(words: str) -> dict[str, Scale]:
    few = Scale(words, (0, 1, 2))
    return {"quick": few, **{name: Scale(f"the paper's own: {words}", _SEEDS) for name in ("desk", "paper")}}


FIG_1 = Exhibit(
    "persa-fl-fig-1",
    "PersA-FL, Fig. 1",
    "Who downloads, computes and uploads when, with a server that waits for all and with one that does not.",
    _scales("timelines of 5 clients, Q = 3"),
    _fig_1,
)
FIG_2A = Exhibit(
    "persa-fl-fig-2a",
    "PersA-FL, Fig. 2a",
    "The share of active clients over virtual time, synchronous and asynchronous.",
    _scales("timelines of 30 clients"),
    _fig_2a,
)
