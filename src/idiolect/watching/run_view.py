"""The page of a run: how it stands, every cell, who works now, what was refused, curves, staleness and the ledger."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from idiolect.report.headline import number
from idiolect.report.peer_pictures import MASS
from idiolect.report.style import style
from idiolect.results.progress_reading import CurvePoint, Working
from idiolect.watching.run_state import CellState, RunState
from idiolect.watching.view import Figure, Table, View, ago

_QUIET = 30.0  # seconds without news after which that is worth a word
_FEW = 60  # points of a curve that are marked
_LEDGERS = 4  # algorithms whose ledger is drawn
_REFUSED = 30  # rows of those of whom most was refused
_CURVES = (
    "Mean over the clients that take part, as the report will have it; a line for each seed. Points are added as they "
    "are scored."
)
_STALE = (
    "What arrived since the evaluation before: how many updates came between its offer and its arrival, on average. "
    "Without a server: how many rounds a message was under way."
)
_LEDGER = (
    "{label}, seed {seed}: the weights y add up to the number of agents, wherever they are. What has leaked "
    "(vermilion) cannot come back."
)


def run_view(run: RunState) -> View:
    """What the page of a run shows."""
    figures = [*_scores(run), *_staleness(run), *_ledgers(run)]
    tables = [*_working(run), _cells(run), *_refusals(run)]
    over = run.standing in ("finished", "stopped", "died")
    return View(run.experiment.name, run.standing, _status(run), run.problems, tables, figures, over)


def _status(run: RunState) -> str:
    done = f"{run.finished} of {len(run.cells)} cells are finished"
    again, now = f"go on with: idiolect resume {run.path}", run.now
    if run.standing == "finished":
        return f"all {len(run.cells)} cells are finished; {run.path / 'report.html'} tells more"
    if now is None:
        return f"{done}; {again}"
    age = ago(now.age)
    if run.standing == "died":
        return f"its process is gone without a word, and last said something {age} ago; {done}; {again}"
    if run.standing == "stopped":
        return "; ".join([*([now.why] if now.state == "failed" else []), done, again])
    if run.standing == "silent":
        return f"it runs on {now.here.host} and has said nothing for {age}: it may be slow, or dead; {done}"
    quiet = f"; nothing new for {age}, but its process lives" if now.age > _QUIET else ""
    return f"{done}{'' if now.at_work else '; it is being prepared'}{quiet}"


def _cells(run: RunState) -> Table:
    columns = ("algorithm", "seed", "state", _time(run), "updates", _metric(run), "worst decile", "stale", "refused")
    return Table("Every algorithm and seed", columns, [_row(cell) for cell in run.cells])


def _row(cell: CellState) -> list[str]:
    last = cell.curve.points[-1] if cell.curve and cell.curve.points else None
    busy = cell.at_work
    when = busy.time if busy else last.time if last else None
    updates = busy.updates if busy else last.updates if last else None
    stale = next((p.stale for p in reversed(cell.curve.points) if p.stale), None) if cell.curve else None
    return [
        cell.label,
        str(cell.seed),
        cell.state,
        "" if when is None else f"{when:g}",
        "" if updates is None else str(updates),
        "" if last is None else number(last.mean),
        "" if last is None else number(last.worst_decile),
        "" if stale is None else f"{stale.mean:.1f}, at most {stale.oldest}",
        str(sum(sum(why.values()) for why in cell.refusals.values())),
    ]


def _working(run: RunState) -> list[Table]:
    """Who does what, in each cell that is computed now."""
    rows = [
        [cell.label, str(cell.seed), f"{cell.at_work.time:g}", doing, str(some.number), _named(some)]
        for cell in run.cells
        if cell.at_work
        for doing, some in cell.at_work.working.items()
    ]
    return [Table("Who works now", ("algorithm", "seed", _time(run), "what", "clients", "which"), rows)] if rows else []


def _named(some: Working) -> str:
    more = ", …" if some.number > len(some.first) else ""
    return ", ".join(map(str, some.first)) + more


def _refusals(run: RunState) -> list[Table]:
    rows = [
        (count, [cell.label, str(cell.seed), whose, why, str(count)])
        for cell in run.cells
        for whose, mine in cell.refusals.items()
        for why, count in mine.items()
    ]
    rows.sort(key=lambda pair: -pair[0])
    title = "What was refused" if len(rows) <= _REFUSED else f"What was refused most, of {len(rows)}"
    columns = ("algorithm", "seed", "whose", "why", "times")
    return [Table(title, columns, [row for _, row in rows[:_REFUSED]])] if rows else []


def _scores(run: RunState) -> list[Figure]:
    curves = [cell.curve for cell in run.cells if cell.curve]
    if not curves:
        return []
    lower = not curves[0].higher_is_better
    positive = all(point.mean > 0 for curve in curves for point in curve.points)
    log = {"type": "log", "exponentformat": "power"} if lower and positive else {}
    title = f"Personalized {_metric(run)} over {_time(run)}"
    return [_figure(run, "scores", title, _metric(run), _CURVES, lambda point: point.mean, log)]


def _staleness(run: RunState) -> list[Figure]:
    if not any(point.stale for cell in run.cells if cell.curve for point in cell.curve.points):
        return []

    def age(point: CurvePoint) -> float | None:
        return None if point.stale is None else point.stale.mean

    return [_figure(run, "staleness", "How old what arrives is", "staleness", _STALE, age, {"rangemode": "tozero"})]


def _figure(
    run: RunState,
    name: str,
    title: str,
    y: str,
    caption: str,
    value: Callable[[CurvePoint], float | None],
    axis: dict[str, Any],
) -> Figure:
    """A line for each cell, in the colour of its algorithm; the legend has every algorithm once."""
    data, named = list[dict[str, Any]](), set[str]()
    for cell in run.cells:
        if cell.curve and any(value(point) is not None for point in cell.curve.points):
            line = style(run.experiment.labels.index(cell.label))
            data.append(
                _line(cell.curve.points, value)
                | {"name": cell.label, "legendgroup": cell.label, "showlegend": cell.label not in named}
                | {"line": {**line, "width": 1.6}, "marker": {"size": 4, "color": line["color"]}}
                | {"hovertemplate": f"seed {cell.seed}: %{{y:.4g}} at %{{x:.4g}}"}
            )
            named.add(cell.label)
    return Figure(name, title, caption, data, _layout(run, y, axis))


def _line(points: Sequence[CurvePoint], value: Callable[[CurvePoint], float | None]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(points) <= _FEW else "lines",
        "x": [point.time for point in points],
        "y": [value(point) for point in points],
    }


def _ledgers(run: RunState) -> list[Figure]:
    """Where the mass is, for the first seed of every algorithm whose mass moves."""
    found: dict[str, CellState] = {}
    for cell in run.cells:
        points = cell.curve.points if cell.curve else []
        if any(point.reports.get(name) for point in points for name in list(MASS)[1:]):
            found.setdefault(cell.label, cell)
    return [_ledger(run, cell) for cell in list(found.values())[:_LEDGERS]]


def _ledger(run: RunState, cell: CellState) -> Figure:
    assert cell.curve is not None
    data = [
        _line(cell.curve.points, partial(_reported, report))
        | {"mode": "lines", "name": words, "stackgroup": "y", "fillcolor": colour}
        | {"line": {"color": colour, "width": 1}}
        for report, (words, colour) in MASS.items()
    ]
    caption, title = _LEDGER.format(label=cell.label, seed=cell.seed), f"Where the mass is: {cell.label}"
    return Figure(f"ledger-{cell.label}", title, caption, data, _layout(run, "weight y", {}))


def _reported(name: str, point: CurvePoint) -> float | None:
    return point.reports.get(name)


def _layout(run: RunState, y: str, axis: dict[str, Any]) -> dict[str, Any]:
    x = {"title": {"text": _time(run)}, "range": [0, run.experiment.horizon]}
    return {"xaxis": x, "yaxis": {"title": {"text": y}, **axis}, "height": 400}


def _time(run: RunState) -> str:
    return "seconds" if run.clock == "real" else "virtual time"


def _metric(run: RunState) -> str:
    return next((cell.curve.metric for cell in run.cells if cell.curve), "score")
