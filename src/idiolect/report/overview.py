"""What a page is about: which runs, on which problem, with which seeds and versions, and what they came to in short."""

from html import escape

import numpy as np

from idiolect.experiments.schema import write_recipe
from idiolect.report.headline import headline, other_metric, other_metrics, plus_minus
from idiolect.report.page import Section
from idiolect.report.remarks import group_lines, remarks, size_lines
from idiolect.report.report_data import ReportData, Run
from idiolect.report.tables import as_html, definitions

_REFERENCES = "In brackets: what the problem knows to compare with, learned by none of the algorithms."
_UNSEEN = "Unseen: the same personalization for clients that took no part in training."


def what_ran(evidence: ReportData) -> Section:
    """Each run in a few lines."""
    return Section("What ran", "".join(_run(run, evidence) for run in evidence.runs))


def in_short(evidence: ReportData) -> Section:
    """The headline table, what the numbers in it are, and what it would hide."""
    summaries = [(f"{run.name}: " if run.name else "", run.summary) for run in evidence.runs]
    table = headline(summaries)
    until = ", ".join(dict.fromkeys(f"{run.recipe.horizon:g}" for run in evidence.runs))
    html = f"<p>{escape(_first_sentence(evidence))}</p>"
    when = f"after {until} seconds" if evidence.time == "seconds" else f"at {evidence.time} {until}"
    html += as_html(table, f"{evidence.metric.capitalize()} {when}, mean ± std over seeds")
    for metric in other_metrics(summaries):
        html += as_html(other_metric(summaries, metric), f"The same models by another metric: {metric}")
    lines = [
        f"{front}{line}"
        for front, summary in summaries
        for line in [*remarks(summary), *group_lines(summary), *size_lines(summary)]
    ]
    html += f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else ""
    more = [_REFERENCES] if evidence.references else []
    more += [_UNSEEN] if "unseen" in table.columns else []
    return Section("In short", html + f"<p class=quiet>{escape(' '.join([*_meaning(evidence), *more]))}</p>")


def what_is_behind(evidence: ReportData) -> Section:
    """The recipes with every default written out, and where everything lies."""
    html = ""
    for run in evidence.runs:
        files = "metrics.jsonl, clients.csv, summary.json, timelines/, params/ and cells/ lie beside it"
        html += (
            f"<details><summary>{escape(run.label('the recipe, with every default written out'))}</summary>"
            f"<pre>{escape(write_recipe(run.recipe))}</pre></details>"
        )
        html += f"<p class=quiet>{escape(run.label(f'run folder {run.path.resolve().name}; {files}.'))}</p>"
    return Section("What is behind", html)


def _run(run: Run, evidence: ReportData) -> str:
    recipe, seeds = run.recipe, ", ".join(map(str, run.recipe.seeds))
    mine = [cell for cell in evidence.cells if cell["label"] in {run.label(label) for label in recipe.labels}]
    groups = [client["group"] for client in mine[0]["clients"]]
    unseen = groups.count("unseen")
    total = len(recipe.labels) * len(recipe.seeds)
    entries = {
        "recipe": f"{recipe.name}: {recipe.description}" if recipe.description else recipe.name,
        "problem": f"{recipe.problem.name}, {groups.count('participating')} clients scored"
        + (f", and {unseen} unseen" if unseen else ""),
        "algorithms": ", ".join(recipe.labels),
        "seeds": seeds,
        "time": f"{recipe.horizon:g}, by a {'real clock: seconds' if run.real else 'virtual clock'}",
        "work": f"{sum(cell['seconds'] for cell in mine):.0f} seconds, all algorithms and seeds together",
        "versions": ", ".join(f"{name} {number}" for name, number in run.summary["versions"].items()),
        "unfinished": f"{run.missing} of {total} cells are not there yet" if run.missing else "",
    }
    return (f"<h3>{escape(run.name)}</h3>" if run.name else "") + definitions(entries)


def _first_sentence(evidence: ReportData) -> str:
    """Who came out first, and how sure that is."""
    scores = {
        run.label(label): entry["participating"]["personalized"]
        for run in evidence.runs
        for label, entry in run.summary["algorithms"].items()
        if "ended" not in entry and np.isfinite(entry["participating"]["personalized"]["mean"])
    }
    if not scores:
        return "No algorithm reached the end of its time."
    which = "highest" if evidence.higher_is_better else "lowest"
    order = sorted(scores, key=lambda label: scores[label]["mean"], reverse=evidence.higher_is_better)
    if len(order) == 1:
        return f"{order[0]} comes to a personalized {evidence.metric} of {plus_minus(scores[order[0]])}."
    (first, second), best = order[:2], scores[order[0]]
    apart = abs(best["mean"] - scores[second]["mean"])
    close = apart <= max(best["std"], scores[second]["std"])
    sure = ", within a standard deviation over seeds of it" if close else ""
    return (
        f"{first} has the {which} personalized {evidence.metric}, {plus_minus(best)}; next is {second} with "
        f"{plus_minus(scores[second])}{sure}."
    )


def _meaning(evidence: ReportData) -> list[str]:
    """What global, personalized and the rest are; once for runs that agree."""
    said = []
    for run in evidence.runs:
        what = run.summary["what"]
        said.append(
            f"Global: {what['global']}. Personalized: {what['personalized']}. Scored on {what['scored_on']}. "
            f"Spread: {what['spread']}."
        )
    if len(set(said)) == 1:
        return said[:1]
    return [run.label(line) for run, line in zip(evidence.runs, said, strict=True)]
