"""`idiolect leaderboard`: every algorithm of the catalog on the same problems, under two equal budgets."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.commands.arguments import ask_for_data, count, say, seed_numbers
from idiolect.errors import Interrupted, UserMistake

if TYPE_CHECKING:
    from idiolect.leaderboard.board_words import Leaderboard

_DOCS_PAGE = Path("docs/leaderboard.md")
_PARTS, _SIZES = ("problems", "algorithms"), ("trials", "seeds")  # what a run can be a part of, and what changes it


def add(commands: Any) -> None:
    """Teach the command line `leaderboard`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "leaderboard", help="tune and score every algorithm on the same problems, with the same gradients or time"
    )
    parser.set_defaults(command=_leaderboard)
    parser.add_argument("--scale", default="desk", metavar="SCALE", help="quick, desk (the default) or paper")
    parser.add_argument("--problems", metavar="NAME,…", help="these, or patterns such as digits-*")
    parser.add_argument("--algorithms", metavar="NAME,…", help="these, patterns, or cells such as maml+buffered")
    parser.add_argument("--trials", type=count, metavar="N", help="to tune each algorithm, instead of the scale's own")
    parser.add_argument("--seeds", metavar="N,N,…", help="that are scored, instead of the scale's own")
    parser.add_argument(
        "--out", type=Path, default=Path("leaderboards"), metavar="DIR", help="what is finished there is not run again"
    )
    parser.add_argument(
        "--commit",
        action="store_true",
        help="write the scores into the sources, beside those that are there; only at --scale desk",
    )
    parser.add_argument(
        "--committed", action="store_true", help="run nothing, and write the page of the tables that are committed"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE.md", help=f"default: in --out, and {_DOCS_PAGE} with --committed"
    )
    ask_for_data(parser)


def _leaderboard(options: argparse.Namespace) -> int:
    from idiolect.commands.progress_bar import progress_bar
    from idiolect.commands.stopping import stopping_gently
    from idiolect.leaderboard.board_problems import chosen_problems, find_scale
    from idiolect.leaderboard.board_words import finished_in_words
    from idiolect.leaderboard.contest import Request, compete
    from idiolect.leaderboard.entrants import entrants

    scale = find_scale(options.scale)
    _check(options)
    if options.committed:
        return _write(options.page or _DOCS_PAGE, _committed_board(scale))
    problems, missing = chosen_problems(scale, _names(options.problems, "--problems"), options.data_dir)
    seeds = scale.seeds if options.seeds is None else tuple(seed_numbers(options.seeds))
    scale = scale._replace(problems=problems, seeds=seeds, trials=options.trials or scale.trials)
    names, left_out = entrants(_names(options.algorithms, "--algorithms"))
    for sentence in [*missing, *(f"{name} is left out: {why}" for name, why in left_out.items())]:
        say(sentence)
    with stopping_gently(say) as stopping:
        try:
            with progress_bar() as progress:
                request = Request(
                    scale,
                    problems,
                    names,
                    options.out / options.scale,
                    options.data_dir,
                    progress=progress,
                    finished=lambda problem, entry: say(finished_in_words(problem, entry)),
                    stop=stopping.asked,
                )
                found = compete(request)
        except (Interrupted, KeyboardInterrupt):
            say(f"stopped; what is done is kept; go on with: {_again(options)}")
            return stopping.code
    board = _board(options, scale, found, left_out, missing)
    if options.commit:
        _commit(scale, found)
    return _write(options.page or options.out / f"leaderboard-{options.scale}.md", board)


def _check(options: argparse.Namespace) -> None:
    """Refuse what does not go together."""
    if options.page and options.page.suffix != ".md":
        raise UserMistake(f"--page is {options.page}, but must end in .md; a page in HTML is written beside it")
    if options.commit or options.committed:
        given = [name for name in (*_SIZES, *(_PARTS if options.committed else ())) if getattr(options, name)]
        if given or options.scale != "desk" or (options.commit and options.committed):
            flag = "--commit" if options.commit else "--committed"
            raise UserMistake(f"{flag} is given with other sizes than are committed, which are those of --scale desk")


def _board(options: argparse.Namespace, scale: Any, found: Any, left_out: Any, missing: Any) -> "Leaderboard":
    from idiolect.leaderboard.board_words import Leaderboard
    from idiolect.leaderboard.budgets import BUDGETS
    from idiolect.leaderboard.standings import standing

    standings = [standing(problem, budget, entries) for problem, entries in found.items() for budget in BUDGETS]
    code = sorted({each for entries in found.values() for entry in entries for each in entry.code})
    return Leaderboard(options.scale, scale, standings, left_out, missing, _again(options, brief=True), code)


def _commit(scale: Any, found: Any) -> None:
    from idiolect.leaderboard.committed_entries import commit

    for problem, entries in found.items():
        say(f"committed: {commit(problem, scale, entries)}")


def _committed_board(scale: Any) -> "Leaderboard":
    from idiolect.leaderboard.board_words import Leaderboard
    from idiolect.leaderboard.committed_entries import all_committed
    from idiolect.leaderboard.entrants import entrants

    names, left_out = entrants()
    standings, missing, code = all_committed(scale, names)
    return Leaderboard("desk", scale, standings, left_out, missing, "idiolect leaderboard --committed", code)


def _write(page: Path, board: "Leaderboard") -> int:
    from idiolect.files import write_atomically
    from idiolect.leaderboard.board_markdown import as_markdown
    from idiolect.leaderboard.board_page import as_page

    beside = page.with_suffix(".html")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, as_markdown(board, beside.name).encode())
    write_atomically(beside, as_page(board).encode())
    for standing in board.standings:
        for row in standing.rows[:3]:
            score = f"{100 * row.own.mean:5.1f} ± {100 * row.own.std:.1f}"
            print(f"{standing.problem}, {standing.budget}: {score}  {row.name}, {row.verdict}")
    print(f"Page: {page}   to sort: {beside}")
    return 0


def _names(text: str | None, what: str) -> list[str] | None:
    """Names from a list such as fedavg,ditto*; None if there is none."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UserMistake(f"{what} is '{text}', but must be names separated by commas")
    return names


def _again(options: argparse.Namespace, *, brief: bool = False) -> str:
    """The same command, as a shell wants it; `brief` leaves out folders, which are nobody else's."""
    words = ["idiolect", "leaderboard", "--scale", options.scale]
    for name in (*_PARTS, *_SIZES, *(() if brief else ("out", "page", "data_dir"))):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)
