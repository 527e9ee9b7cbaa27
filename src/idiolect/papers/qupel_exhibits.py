"""QuPeL, Tables 2 and 3 and Fig. 1: clients with quantized models, alone and together."""

import numpy as np
import plotly.graph_objects as go

from idiolect.papers import qupel_sizes as sizes
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Table
from idiolect.papers.figures import Bars, bars
from idiolect.papers.findings import FoundOut, at_the_desk
from idiolect.papers.trials import FinishedTrial, carry_out
from idiolect.papers.verdicts import above, spread
from idiolect.report.page import Picture

_FEDAVG = 0.6431
_WIDTHS = {  # what Table 2 prints: local, QuPeL
    "32": ("32", 0.7842, 0.7994),
    "3": ("3", 0.7755, 0.7950),
    "2_75": ("2.75", 0.7721, 0.7910),
    "2_5": ("2.5", 0.7715, 0.7874),
    "2_25": ("2.25", 0.7677, 0.7857),
    "2": ("2", 0.7646, 0.7788),
}
_BESIDE = {  # Table 3: the cells that hold its control clients, and what it prints
    "qupel-2": ("2 bits", 0.7817),
    "qupel-2_5": ("3 bits", 0.7879),
    "beside-32": ("32 bits", None),
}


def _widths(ran: FinishedTrial) -> list[str]:
    return [width for width in _WIDTHS if {f"local-{width}", f"qupel-{width}"} <= set(ran.labels)]


def table_2_claims(ran: FinishedTrial, found: FoundOut, more: FinishedTrial | None = None) -> list[Claim]:
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
                size=together - alone,
                finding=found("together"),
            )
        )
    claims.append(
        above(
            "In full precision local training is above FedAvg's model for all",
            ran.scores("local-32"),
            ran.scores("fedavg"),
            ran.seeds,
            paper=f"{_WIDTHS['32'][1]:.4f} against {_FEDAVG:.4f}",
        )
    )
    return [*claims, _three_bits([ran] if more is None else [ran, more], found)]


def _three_bits(parts: list[FinishedTrial], found: FoundOut) -> Claim:
    """A margin of one point asks for more seeds than the other claims: those of all parts."""
    return above(
        "QuPeL with 3 bits is less than 1 point behind QuPeL in full precision",
        [score for part in parts for score in part.scores("qupel-3")],
        [score for part in parts for score in part.scores("qupel-32")],
        [seed for part in parts for seed in part.seeds],
        paper=f"{_WIDTHS['3'][2]:.4f} against {_WIDTHS['32'][2]:.4f}",
        margin=0.01,
        finding=found("three bits"),
    )


def _more(request: Request) -> FinishedTrial | None:
    """Further seeds of the two cells that the claim on 3 bits compares, beside the desk's own."""
    if request.scale != "desk" or tuple(request.seeds) != sizes.SEEDS:
        return None
    return carry_out(sizes.THREE_BITS, request._replace(seeds=sizes.MORE_SEEDS))


def _table_2(request: Request) -> Findings:
    ran, more = carry_out(sizes.TOGETHER, request), _more(request)
    rows = [["FedAvg, one model for all", spread(ran.scores("fedavg")), f"{_FEDAVG:.4f}", "", ""]]
    for width in _widths(ran):
        words, alone, together = _WIDTHS[width]
        local, joint = (spread(ran.scores(f"{method}-{width}")) for method in ("local", "qupel"))
        rows.append([f"{words} bits", local, f"{alone:.4f}", joint, f"{together:.4f}"])
    head = ["mean bits", "local here", "local, paper", "QuPeL here", "QuPeL, paper"]
    claims = table_2_claims(ran, at_the_desk("qupel-table-2", request, sizes.SEEDS), more)
    table, parts = Table("Table 2, the paper's numbers beside ours", head, rows), [ran, *([more] if more else [])]
    folders, seconds = [part.folder for part in parts], sum(part.seconds for part in parts)
    return Findings(claims, [Picture(_bars_of_widths(ran), _BARS)], [table], folders, seconds)


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
    ran = carry_out(sizes.TOGETHER, request)
    scores = {label: control_scores(ran, label) for label in _BESIDE}
    found = at_the_desk("qupel-table-3", request, sizes.SEEDS)
    claims = [
        above(
            "Clients with 2 bits do better beside clients with 3 bits than beside clients with 2 bits",
            scores["qupel-2_5"],
            scores["qupel-2"],
            ran.seeds,
            paper="0.7879 against 0.7817",
            size=0.0062,
            finding=found("beside-3"),
        ),
        above(
            "Beside clients in full precision there are further small gains",
            scores["beside-32"],
            scores["qupel-2_5"],
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
    sizes.TOGETHER.scales(),
    _table_3,
)
