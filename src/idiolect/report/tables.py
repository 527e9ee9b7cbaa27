"""Tables as HTML, in a box of their own that scrolls where the window is narrow."""

from collections.abc import Sequence
from html import escape

from idiolect.report.headline import Rows


def as_html(table: Rows, caption: str = "", *, words: bool = False) -> str:
    """The table; all text in it is plain. With `words` its entries are sentences, which fold."""
    title = f"<p class=quiet>{escape(caption)}</p>" if caption else ""
    return title + marked_up(table.columns, [[escape(entry) for entry in row] for row in table.rows], words=words)


def marked_up(columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False) -> str:
    """A table whose entries are HTML already."""
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{entry}</td>' for entry in row)}</tr>" for row in rows)
    kind = '"table words"' if words else "table"
    return f"<div class={kind}><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def definitions(entries: dict[str, str]) -> str:
    """Names and what they are, where something is said; plain text."""
    pairs = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in entries.items() if text)
    return f"<dl>{pairs}</dl>"


def folded(title: str, html: str) -> str:
    """HTML under a line that opens it; the title is plain text."""
    return f"<details><summary>{escape(title)}</summary>{html}</details>"
