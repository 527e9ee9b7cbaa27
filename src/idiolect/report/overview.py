"""The overview of a page: which runs, on which problem, with which seeds and versions, and their results in short."""

from collections.abc import Sequence
from html import escape

import numpy as np

from idiolect.contracts import Problem
from idiolect.experiments.value import Experiment
from idiolect.registry import Choice
from idiolect.report.headline import headline, other_metric, other_metrics, plus_minus, seeds_of
from idiolect.report.page import Section
from idiolect.report.remarks import group_lines, meaning_lines, remarks, size_lines
from idiolect.report.report_data import PageRun, ReportData
from idiolect.report.tables import as_html, definitions, folded
from idiolect.results.folder import RECIPE

_OPEN = 3  # remarks under the table that are not folded away


def runs_section(data: ReportData) -> Section:
    """Each run in a few lines."""
    return Section("What ran", "".join(_run(run, data) for run in data.runs))


def headline_section(data: ReportData) -> Section:
    """The headline table, what the numbers in it are, and what it would hide."""
    summaries = [(f"{run.name}: " if run.name else "", run.summary) for run in data.runs]
    table = headline(summaries)
    when = ", ".join(dict.fromkeys(_when(run) for run in data.runs))
    html = f"<p>{escape(_first_sentence(data))}</p>"
    html += as_html(table, f"{data.metric.capitalize()} {when}, mean ± std over seeds")
    for metric in other_metrics(summaries):
        html += as_html(other_metric(summaries, metric), f"The same models by another metric: {metric}")
    lines = [
        f"{front}{line}"
        for front, summary in summaries
        for line in [*remarks(summary), *group_lines(summary), *size_lines(summary)]
    ]
    meaning = f"<p class=quiet>{escape(' '.join(_meaning(data, table.columns)))}</p>"
    return Section("In short", html + folded("What these numbers are", meaning) + _listed(lines))


def _listed(lines: Sequence[str]) -> str:
    """What the table would hide; only the first few lines are open."""
    first, rest = (
        f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in some)}</ul>" if some else ""
        for some in (lines[:_OPEN], lines[_OPEN:])
    )
    hidden = len(lines) - _OPEN
    return first + (folded(f"{hidden} more remark{'s' if hidden > 1 else ''}", rest) if rest else "")


def files_section(data: ReportData) -> Section:
    """The recipes with every default written out, as they were saved, and where everything lies."""
    html = ""
    for run in data.runs:
        files = "metrics.csv, metrics.jsonl, clients.csv, summary.json, timelines/, params/ and cells/ lie beside it"
        recipe = f"<pre>{escape((run.path / RECIPE).read_text('utf-8'))}</pre>"
        html += folded(run.label("the recipe, with every default written out"), recipe)
        html += f"<p class=quiet>{escape(run.label(f'run folder {run.path.resolve().name}; {files}.'))}</p>"
    return Section("What is behind", html)


def _run(run: PageRun, data: ReportData) -> str:
    experiment, labels = run.experiment, [run.label(label) for label in run.experiment.labels]
    mine = [cell.record for cell in data.cells if cell.label in labels]
    groups = [client.group for client in mine[0].clients]
    unseen = groups.count("unseen")
    total = len(labels) * len(experiment.seeds)
    entries = {
        "recipe": f"{experiment.name}: {experiment.description}" if experiment.description else experiment.name,
        "problem": f"{_problem_name(experiment)}, {groups.count('participating')} clients scored"
        + (f", and {unseen} unseen" if unseen else ""),
        "algorithms": ", ".join(experiment.labels),
        "seeds": ", ".join(map(str, experiment.seeds)),
        "time": f"{experiment.horizon:g} {run.unit}"
        if run.unit != "virtual time"
        else f"{experiment.horizon:g}, by a virtual clock",
        "work": f"{sum(cell.seconds for cell in mine):.0f} seconds, all algorithms and seeds together",
        "versions": ", ".join(f"{name} {number}" for name, number in run.summary.versions.items()),
        "unfinished": f"{run.missing} of {total} cells are not there yet" if run.missing else "",
    }
    return (f"<h3>{escape(run.name)}</h3>" if run.name else "") + definitions(entries)


def _when(run: PageRun) -> str:
    return f"after {run.experiment.horizon:g} seconds" if run.real else run.summary.when


def _problem_name(experiment: Experiment) -> str:
    """A function of one's own that makes problems is called as `open_run` calls it, so that pages do not differ."""
    return experiment.problem.name if isinstance(experiment.problem, Choice | Problem) else "own"


def _first_sentence(data: ReportData) -> str:
    """Who came out first, and how sure that is."""
    seeds = max(seeds_of(run.summary) for run in data.runs)
    scores = {
        run.label(label): entry.participating["personalized"]
        for run in data.runs
        for label, entry in run.summary.algorithms.items()
        if not entry.ended and np.isfinite(entry.participating["personalized"].mean)
    }
    if not scores:
        return "No algorithm reached the end of its time."
    which = "highest" if data.higher_is_better else "lowest"
    order = sorted(scores, key=lambda label: scores[label].mean, reverse=data.higher_is_better)
    if len(order) == 1:
        return f"{order[0]} comes to a personalized {data.metric} of {plus_minus(scores[order[0]], seeds)}."
    first, second = order[:2]
    best, next_best = scores[first], scores[second]
    close = seeds > 1 and abs(best.mean - next_best.mean) <= max(best.std, next_best.std)
    sure = ", within a standard deviation over seeds of it" if close else ""
    return (
        f"{first} has the {which} personalized {data.metric}, {plus_minus(best, seeds)}; next is {second} with "
        f"{plus_minus(next_best, seeds)}{sure}."
    )


def _meaning(data: ReportData, columns: Sequence[str]) -> list[str]:
    """What global, personalized and the rest are; once for runs that agree."""
    said = []
    for run in data.runs:
        what = run.summary.what
        lines = [*meaning_lines(run.summary, columns), f"Scored on {what.scored_on}. Spread: {what.spread}."]
        said.append(" ".join(lines))
    if len(set(said)) == 1:
        return said[:1]
    return [run.label(line) for run, line in zip(data.runs, said, strict=True)]
