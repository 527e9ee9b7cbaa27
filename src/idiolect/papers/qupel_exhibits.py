"""QuPeL, Tables 1 to 3 and Fig. 1: quantized models, alone and together."""

from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from idiolect.papers import qupel_sizes as sizes
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Table
from idiolect.papers.figures import Bars, bars
from idiolect.papers.findings import FoundOut, at_the_desk
from idiolect.papers.trials import FinishedTrial, carry_out
from idiolect.papers.verdicts import above, spread
from idiolect.report.page import Picture

_ALONE = {  # what Table 1 prints: ResNet-20, ResNet-32
    "full-precision": ("full precision", 0.9205, 0.9295),
    "learned-2": ("learned levels, 2 bits", 0.9145, 0.9247),
    "learned-1": ("learned levels, 1 bit", 0.9117, 0.9210),
    "proxquant-1": ("ProxQuant, 1 bit", 0.9069, 0.9155),
    "binary-relax-1": ("BinaryRelax, 1 bit", 0.8782, 0.9065),
}
_FEDAVG = 0.6431
_WIDTHS = {  # what Table 2 prints: local, QuPeL
    "32": ("32", 0.7842, 0.7994),
    "3": ("3", 0.7755, 0.7950),
    "2_75": ("2.75", 0.7721, 0.7910),
    "2_5": ("2.5", 0.7715, 0.7874),
    "2_25": ("2.25", 0.7677, 0.7857),
    "2": ("2", 0.7646, 0.7788),
}
_BESIDE = {"beside-2": ("2 bits", 0.7817), "beside-3": ("3 bits", 0.7879), "beside-32": ("32 bits", None)}  # Table 3


def _methods(ran: FinishedTrial) -> list[str]:
    return [label for label in _ALONE if label in ran.labels]


def table_1_claims(ran: FinishedTrial, found: FoundOut) -> list[Claim]:
    """Every method above the next."""
    order = _methods(ran)
    return [
        above(
            f"{_ALONE[first][0][0].upper()}{_ALONE[first][0][1:]} is above {_ALONE[second][0]}",
            ran.scores(first),
            ran.scores(second),
            ran.seeds,
            paper=f"{_ALONE[first][1]:.4f} against {_ALONE[second][1]:.4f} (ResNet-20)",
            finding=found(second),
        )
        for first, second in pairwise(order)
    ]


def _table_1(request: Request) -> Findings:
    ran = carry_out(sizes.ALONE, request)
    labels = _methods(ran)
    rows = [[_ALONE[label][0], spread(ran.scores(label)), *(f"{n:.4f}" for n in _ALONE[label][1:])] for label in labels]
    rows.append(["rounded after training, 1 bit", spread(ran.scores("post-training-1")), "", ""])
    series: Bars = {
        "here": [ran.scores(label) for label in labels],
        "paper, ResNet-20": [_ALONE[label][1] for label in labels],
    }
    figure = bars([_ALONE[label][0] for label in labels], series, "Test accuracy of the rounded model", "", "accuracy")
    caption = "One client. Mean over seeds with their standard deviation, beside what the paper prints."
    table = Table("Table 1, the paper's numbers beside ours", ["", "here", "paper, ResNet-20", "ResNet-32"], rows)
    claims = table_1_claims(ran, at_the_desk("qupel-table-1", request, sizes.ALONE_SEEDS))
    return Findings(claims, [Picture(figure, caption)], [table], [ran.folder], ran.seconds)


def _widths(ran: FinishedTrial) -> list[str]:
    return [width for width in _WIDTHS if f"qupel-{width}" in ran.labels]


def table_2_claims(ran: FinishedTrial, found: FoundOut) -> list[Claim]:
    """QuPeL above local at every width, local above FedAvg, and few bits almost for free."""
    claims = []
    for width in _widths(ran):
        words, alone, together = _WIDTHS[width]
        claims.append(
            above(
                f"At {words} bits QuPeL is above local training",
                ran.scores(f"qupel-{width}"),
                ran.scores(f"local-{width}"),
                ran.seeds,
                paper=f"{together:.4f} against {alone:.4f}",
                finding=found("together"),
            )
        )
    full = ran.scores("qupel-32")
    claims.append(
        above(
            "In full precision local training is above FedAvg's model for all",
            ran.scores("local-32"),
            ran.scores("fedavg"),
            ran.seeds,
            paper=f"{_WIDTHS['32'][1]:.4f} against {_FEDAVG:.4f}",
        )
    )
    claims.append(
        above(
            "QuPeL with 3 bits is less than 1 point behind QuPeL in full precision",
            ran.scores("qupel-3"),
            full,
            ran.seeds,
            paper=f"{_WIDTHS['3'][2]:.4f} against {_WIDTHS['32'][2]:.4f}",
            margin=0.01,
            finding=found("three bits"),
        )
    )
    return claims


def _table_2(request: Request) -> Findings:
    ran = carry_out(sizes.TOGETHER, request)
    rows = [["FedAvg, one model for all", spread(ran.scores("fedavg")), f"{_FEDAVG:.4f}", "", ""]]
    for width in _widths(ran):
        words, alone, together = _WIDTHS[width]
        local, joint = (spread(ran.scores(f"{method}-{width}")) for method in ("local", "qupel"))
        rows.append([f"{words} bits", local, f"{alone:.4f}", joint, f"{together:.4f}"])
    head = ["mean bits", "local here", "local, paper", "QuPeL here", "QuPeL, paper"]
    claims = table_2_claims(ran, at_the_desk("qupel-table-2", request, sizes.SEEDS))
    table = Table("Table 2, the paper's numbers beside ours", head, rows)
    return Findings(claims, [Picture(_bars_of_widths(ran), _BARS)], [table], [ran.folder], ran.seconds)


_BARS = (
    "Test accuracy of each client's own rounded model, mean over clients and seeds with the standard deviation over "
    "seeds; for FedAvg the full-precision model for all. Hatched: what the paper prints, at its own scale."
)


def _bars_of_widths(ran: FinishedTrial) -> go.Figure:
    widths = _widths(ran)
    series: Bars = {
        "FedAvg": [ran.scores("fedavg")] * len(widths),
        "local": [ran.scores(f"local-{width}") for width in widths],
        "QuPeL": [ran.scores(f"qupel-{width}") for width in widths],
        "paper: FedAvg": [_FEDAVG] * len(widths),
        "paper: local": [_WIDTHS[width][1] for width in widths],
        "paper: QuPeL": [_WIDTHS[width][2] for width in widths],
    }
    groups = [f"{_WIDTHS[width][0]} bits" for width in widths]
    return bars(
        groups, series, "Average test accuracy across clients by precision", "mean bits of a weight", "accuracy"
    )


def fig_1_claims(ran: FinishedTrial, found: FoundOut) -> list[Claim]:
    """Over all widths together."""
    widths = _widths(ran)
    local, joint = (
        list(np.mean([ran.scores(f"{method}-{width}") for width in widths], axis=0)) for method in ("local", "qupel")
    )
    printed = [np.mean([_WIDTHS[width][column] for width in widths]) for column in (2, 1)]
    paper = f"{printed[0]:.4f} against {printed[1]:.4f}"
    apart = f"{printed[1]:.4f} against {_FEDAVG:.4f}"
    return [
        above(
            "Mean over widths: QuPeL is above local training",
            joint,
            local,
            ran.seeds,
            paper=paper,
            finding=found("together"),
        ),
        above("Mean over widths: local training is above FedAvg", local, ran.scores("fedavg"), ran.seeds, paper=apart),
    ]


def _fig_1(request: Request) -> Findings:
    ran = carry_out(sizes.TOGETHER, request)
    claims = fig_1_claims(ran, at_the_desk("qupel-fig-1", request, sizes.SEEDS))
    return Findings(claims, [Picture(_bars_of_widths(ran), _BARS)], runs=[ran.folder], seconds=ran.seconds)


def control_scores(ran: FinishedTrial, label: str) -> list[float]:
    """Mean over the control clients' own models at the end, for each seed."""
    control = set(ran.experiment.evaluation.groups["control"])
    return [
        float(np.mean([client.scores["own"] for client in cell.clients if client.client in control]))
        for cell in ran.of(label)
    ]


def _table_3(request: Request) -> Findings:
    ran = carry_out(sizes.RESOURCES, request)
    scores = {label: control_scores(ran, label) for label in _BESIDE}
    found = at_the_desk("qupel-table-3", request, sizes.SEEDS)
    claims = [
        above(
            "Clients with 2 bits do better beside clients with 3 bits than beside clients with 2 bits",
            scores["beside-3"],
            scores["beside-2"],
            ran.seeds,
            paper="0.7879 against 0.7817",
            finding=found("beside-3"),
        ),
        above(
            "Beside clients in full precision there are further small gains",
            scores["beside-32"],
            scores["beside-3"],
            ran.seeds,
            paper="said, without a number",
            finding=found("beside-32"),
        ),
    ]
    rows = [
        [words, spread(scores[label]), "" if printed is None else f"{printed:.4f}"]
        for label, (words, printed) in _BESIDE.items()
    ]
    series: Bars = {"here": list(scores.values()), "paper": [printed for _, printed in _BESIDE.values()]}
    title = "Test accuracy of control clients with 2 bits"
    figure = bars([words for words, _ in _BESIDE.values()], series, title, "bits of the other ten clients", "accuracy")
    caption = "Ten control clients, their own rounded models; mean over seeds with their standard deviation."
    table = Table("Table 3, the paper's numbers beside ours", ["the other ten clients", "here", "paper"], rows)
    return Findings(claims, [Picture(figure, caption)], [table], [ran.folder], ran.seconds)


TABLE_1 = Exhibit(
    "qupel-table-1",
    "QuPeL, Table 1",
    "Accuracy of one client's model with one and two bits a weight, by method.",
    sizes.ALONE.scales(),
    _table_1,
)
TABLE_2 = Exhibit(
    "qupel-table-2",
    "QuPeL, Table 2",
    "Accuracy of FedAvg, of local training and of QuPeL at six mean bit widths.",
    sizes.TOGETHER.scales(),
    _table_2,
)
FIG_1 = Exhibit(
    "qupel-fig-1",
    "QuPeL, Fig. 1",
    "The average accuracy across clients for each scheme and precision, as bars.",
    sizes.TOGETHER.scales(),
    _fig_1,
)
TABLE_3 = Exhibit(
    "qupel-table-3",
    "QuPeL, Table 3",
    "Accuracy of clients with 2 bits beside clients with 2, 3 and 32 bits.",
    sizes.RESOURCES.scales(),
    _table_3,
)
