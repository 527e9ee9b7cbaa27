"""Tables as HTML, in a box of their own that scrolls where the window is narrow."""

from html import escape

from idiolect.report.headline import Rows


def as_html(table: Rows, caption: str = "") -> str:
    """The table; all text in it is plain."""
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(entry)}</td>' for entry in row)}</tr>" for row in table.rows)
    title = f"<p class=quiet>{escape(caption)}</p>" if caption else ""
    return f"{title}<div class=table><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def definitions(entries: dict[str, str]) -> str:
    """Names and what they are, where something is said; plain text."""
    pairs = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in entries.items() if text)
    return f"<dl>{pairs}</dl>"
