"""`idiolect reproduce`: the papers' figures and tables, run again."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.commands.arguments import ask_for_data, say, seed_numbers
from idiolect.errors import Diverged, Interrupted, Refused, UserMistake

if TYPE_CHECKING:
    from idiolect.papers.exhibit import Exhibit, ExhibitRecord, Request

_DOCS_PAGE = Path("docs/reproduction.md")


def add(commands: Any) -> None:
    """Teach the command line `reproduce`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "reproduce", help="run a figure or table of a paper again, and decide its claims; without a name, list them"
    )
    parser.set_defaults(command=_reproduce)
    parser.add_argument("name", nargs="?", help="which one")
    parser.add_argument("--all", action="store_true", help="every one of them, and a page with all claims")
    parser.add_argument("--scale", default="desk", metavar="SCALE", help="quick, desk (the default) or paper")
    parser.add_argument("--seeds", metavar="N,N,…", help="these seeds instead of the scale's own")
    parser.add_argument(
        "--out", type=Path, default=Path("reproductions"), metavar="DIR", help="what is finished there is not run again"
    )
    ask_for_data(parser)
    parser.add_argument(
        "--dry",
        action="store_true",
        help="only start everything, a few turns of each, and estimate what the whole takes",
    )
    parser.add_argument(
        "--commit", action="store_true", help="write the numbers into the sources, as what a run should give"
    )
    parser.add_argument("--committed", action="store_true", help="run nothing, and write the page of what is committed")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help=f"default: in --out with --all, {_DOCS_PAGE} with --committed"
    )


def _reproduce(options: argparse.Namespace) -> int:
    from idiolect.options import known
    from idiolect.papers.exhibit import SCALES
    from idiolect.papers.exhibits import EXHIBITS, find

    known(SCALES, "--scale", options.scale)
    _seeds(options.seeds)
    if options.all and options.name:
        raise UserMistake(f"--all is given with the name '{options.name}', but must be given without one")
    if options.page and not (options.all or options.committed):
        raise UserMistake(
            f"--page is {options.page}, but the page has every exhibit and is only written with --all or --committed"
        )
    if options.committed:
        return _tell_committed(options)
    if options.commit and (options.seeds is not None or options.scale != ("paper" if options.dry else "desk")):
        wanted = "--scale paper with --dry" if options.dry else "--scale desk"
        raise UserMistake(f"--commit is given with other sizes than are committed, which are those of {wanted}")
    if not (options.all or options.name):
        return _list()
    chosen = list(EXHIBITS.values()) if options.all else [find(options.name)]
    return _size_up(chosen, options) if options.dry else _perform(chosen, options)


def _list() -> int:
    from idiolect.papers.claims_page import listing
    from idiolect.papers.exhibits import EXHIBITS

    for name, shows, scales in listing(list(EXHIBITS.values())):
        print(f"{name}\n  {shows}")
        for scale in scales:
            print(f"    {scale}")
    print(
        "Run one: idiolect reproduce NAME --scale quick|desk|paper [--seeds 0,1,2]; run all: idiolect reproduce --all"
    )
    return 0


def _perform(exhibits: "list[Exhibit]", options: argparse.Namespace) -> int:
    """One after the other; with several, what one lacks does not keep the others from being run."""
    from idiolect.commands.progress_bar import progress_bar
    from idiolect.commands.stopping import stopping_gently
    from idiolect.papers.claim_files import reproduce

    records, code = {}, 0
    with stopping_gently(say) as stopping:
        try:
            for exhibit in exhibits:
                with progress_bar() as progress:
                    request = _request(exhibit, options)._replace(progress=progress, stop=stopping.asked)
                    try:
                        records[exhibit.name] = reproduce(exhibit, request)
                    except (UserMistake, Diverged, Refused) as problem:
                        if not options.all:
                            raise
                        say(f"{exhibit.name}: {problem}")
                        code = 2
                        continue
                code = max(code, _tell(exhibit, request, records[exhibit.name], options.commit))
                if stopping.asked():
                    raise Interrupted
        except (Interrupted, KeyboardInterrupt):
            say(f"stopped; what is done is kept; go on with: {_again(options)}")
            return stopping.code
    if options.all:
        _write_page(exhibits, records, options)
    return code


def _request(exhibit: "Exhibit", options: argparse.Namespace) -> "Request":
    from idiolect.papers.exhibit import Request

    if options.scale not in exhibit.scales:
        raise UserMistake(f"--scale is {options.scale}, but {exhibit.name} has {', '.join(exhibit.scales)}")
    seeds = _seeds(options.seeds) or exhibit.scales[options.scale].seeds
    return Request(options.scale, seeds, options.out, options.data_dir)


def _tell(exhibit: "Exhibit", request: "Request", record: "ExhibitRecord", commit: bool) -> int:
    """Print the claims, and whether they are as committed; 1 if they should be and are not."""
    from idiolect.papers import self_check
    from idiolect.papers.claim_files import CLAIMS, folder_of
    from idiolect.papers.wording import listed

    print(f"{exhibit.source}, {request.scale}, seeds {listed(request.seeds)}")
    for claim in record.claims:
        print(f"  {claim.verdict:<9}  {claim.statement}: {claim.ours}")
        if claim.needs:
            print(f"{'':13}a decision takes {claim.needs}")
    folder = folder_of(exhibit, request)
    print(f"  report: {folder / 'report.html'}   claims: {folder / CLAIMS}", flush=True)
    if commit:
        for line in self_check.made_by_other_code(record):
            print(f"  {line}")
        print(f"  committed: {self_check.commit(record, exhibit.scales['desk'].seeds)}")
        return 0
    lines, agrees = self_check.check(record)
    for line in lines:
        print(f"  {line}")
    return 1 if agrees is False else 0


def _size_up(exhibits: "list[Exhibit]", options: argparse.Namespace) -> int:
    """Start everything, and say what the whole takes; what one lacks does not keep the others from being started."""
    from idiolect.papers.sizing import size_up
    from idiolect.papers.sizing_page import told, write_sizings

    found, code = {}, 0
    for exhibit in exhibits:
        request = _request(exhibit, options)
        try:
            found[exhibit.name] = size_up(exhibit, request.scale, options.data_dir)
        except UserMistake as problem:
            if not options.all:
                raise
            say(f"{exhibit.name}: {problem}")
            code = 2
            continue
        for line in told(exhibit, found[exhibit.name]):
            print(line, flush=True)
        code = max(code, 1 if found[exhibit.name].stopped else 0)
        if options.commit:
            write_sizings({exhibit.name: found[exhibit.name]}, request.scale)
    return code


def _write_page(exhibits: "list[Exhibit]", records: "dict[str, ExhibitRecord]", options: argparse.Namespace) -> None:
    from idiolect.papers.claims_page import overview

    path = options.page or options.out / f"reproduction-{options.scale}.md"
    _write(path, overview(exhibits, records, options.scale, f"idiolect reproduce --all --scale {options.scale}"))


def _tell_committed(options: argparse.Namespace) -> int:
    """The page of the documentation: exhibits are run one by one, on many days, and what they came to is committed."""
    from idiolect.papers.claims_page import committed_page

    given = [name for name in ("all", "name", "commit", "dry", "seeds") if getattr(options, name)]
    if given:
        raise UserMistake(f"--committed is given with {given[0]}, but runs nothing; give it alone, or with --page")
    _write(options.page or _DOCS_PAGE, committed_page())
    return 0


def _write(path: Path, text: str) -> None:
    from idiolect.files import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    print(f"All claims: {path}")


def _seeds(text: str | None) -> tuple[int, ...]:
    return () if text is None else tuple(seed_numbers(text))


def _again(options: argparse.Namespace) -> str:
    """The same command, as a shell wants it."""
    words = ["idiolect", "reproduce", *(["--all"] if options.all else [options.name]), "--scale", options.scale]
    for name in ("seeds", "out", "data_dir", "page"):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)
