"""The architecture as a picture: rooms in layers, each line going down to what is imported.

Lines that pass a layer get a place in it, as rooms do, so that they run between boxes and not through them. Places are
ordered by the mean of what they are joined to, back and forth, until few lines cross.
"""

from itertools import pairwise
from typing import NamedTuple

from generators.import_graph import direct, first_line, imports, layers

BOX, GAP, LANE, HIGH, STEP = 124, 12, 18, 36, 84  # widths of a box, a gap, a passing line; heights of a box, a layer
Place = tuple[str, int, str]  # a room, or a line on its way to one: (room, layer, room that it comes from)


class Drawing(NamedTuple):
    """Where everything is."""

    rows: list[list[Place]]  # from the lowest layer up
    lines: list[tuple[Place, Place]]  # from a place to one in the next layer below
    across: dict[Place, float]  # the middle of each place


def picture() -> str:
    """The picture as SVG, in the colours of the page that it stands in."""
    graph = imports()
    drawing = _laid_out(graph)
    wide = max(drawing.across[row[-1]] + _width(row[-1]) / 2 for row in drawing.rows) + GAP
    high = STEP * len(drawing.rows)
    drawn = [f'<path d="{_curve(drawing, start, end, high)}"/>' for start, end in drawing.lines]
    for level, row in enumerate(drawing.rows):
        drawn += [_box(place[0], drawing.across[place], _top(level, high)) for place in row if not place[2]]
    head = f'<svg class="architecture" viewBox="0 0 {wide:.0f} {high}" xmlns="http://www.w3.org/2000/svg" role="img"'
    return f'{head} aria-label="Rooms of the package and what they import">\n' + "\n".join(drawn) + "\n</svg>\n"


def _laid_out(graph: dict[str, set[str]]) -> Drawing:
    rooms = layers(graph)
    level = {room: number for number, row in enumerate(rooms) for room in row}
    rows: list[list[Place]] = [[(room, number, "") for room in row] for number, row in enumerate(rooms)]
    lines = []
    for room, others in sorted(direct(graph).items()):
        for other in sorted(others):
            above: Place = (room, level[room], "")
            for number in range(level[room] - 1, level[other], -1):
                passing: Place = (other, number, "*")  # lines to the same room run together
                if passing not in rows[number]:
                    rows[number].append(passing)
                lines.append((above, passing))
                above = passing
            lines.append((above, (other, level[other], "")))
    lines = list(dict.fromkeys(lines))
    return Drawing(rows, lines, _ordered(rows, lines))


def _ordered(rows: list[list[Place]], lines: list[tuple[Place, Place]]) -> dict[Place, float]:
    """Sort each layer by where its neighbours are, upward and downward in turn, then let places drift toward them."""
    joined: dict[Place, list[Place]] = {}
    for above, below in lines:
        joined.setdefault(above, []).append(below)
        joined.setdefault(below, []).append(above)
    across = _spread(rows)
    best, fewest = [list(row) for row in rows], _crossings(rows, lines, across)
    for sweep in range(60):
        for row in rows if sweep % 2 else rows[::-1]:
            side = -1 if sweep % 2 else 1  # neighbours in the layer below, or above
            near = {place: [one for one in joined.get(place, []) if (one[1] - place[1]) * side > 0] for place in row}
            row.sort(key=lambda place: _mean([across[one] for one in near[place]], across[place]))
            across |= _spread([row])
        if (count := _crossings(rows, lines, across)) < fewest:
            best, fewest = [list(row) for row in rows], count
    rows[:] = best
    return _relaxed(rows, joined)


def _spread(rows: list[list[Place]]) -> dict[Place, float]:
    """Each layer in its order, side by side, about a common middle."""
    found = {}
    for row in rows:
        left = 480 - (sum(map(_width, row)) + GAP * (len(row) - 1)) / 2
        for place in row:
            found[place] = left + _width(place) / 2
            left += _width(place) + GAP
    return found


def _relaxed(rows: list[list[Place]], joined: dict[Place, list[Place]]) -> dict[Place, float]:
    across = _spread(rows)
    for turn in range(80):
        for row in rows if turn % 2 else rows[::-1]:
            wanted = [_mean([across[one] for one in joined.get(place, [])], across[place]) for place in row]
            across |= dict(zip(row, _apart(row, wanted), strict=True))
    left = min(across[row[0]] - _width(row[0]) / 2 for row in rows) - GAP
    return {place: middle - left for place, middle in across.items()}


def _apart(row: list[Place], wanted: list[float]) -> list[float]:
    """Places near where they want to be, in their order and without touching: the mean of pushing from either side."""
    least = [(_width(a) + _width(b)) / 2 + GAP for a, b in pairwise(row)]
    right, left = list(wanted), list(wanted)
    for k, distance in enumerate(least):
        right[k + 1] = max(right[k + 1], right[k] + distance)
    for k in range(len(least) - 1, -1, -1):
        left[k] = min(left[k], left[k + 1] - least[k])
    return [(a + b) / 2 for a, b in zip(right, left, strict=True)]


def _crossings(rows: list[list[Place]], lines: list[tuple[Place, Place]], across: dict[Place, float]) -> int:
    count = 0
    for number in range(1, len(rows)):
        ends = sorted((across[above], across[below]) for above, below in lines if above[1] == number)
        count += sum(a[1] > b[1] for k, a in enumerate(ends) for b in ends[k + 1 :])
    return count


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _width(place: Place) -> int:
    return LANE if place[2] else BOX


def _top(level: int, high: int) -> float:
    return high - STEP * level - (STEP + HIGH) / 2


def _curve(drawing: Drawing, start: Place, end: Place, high: int) -> str:
    x, u = drawing.across[start], drawing.across[end]
    y, v = _top(start[1], high) + HIGH / 2, _top(end[1], high) + HIGH / 2
    middle = (y + v) / 2
    # Straight through the height of a layer, bent between two.
    bend = f"C{x:.0f} {middle:.0f} {u:.0f} {middle:.0f} {u:.0f} {v - HIGH / 2:.0f}"
    return f"M{x:.0f} {y:.0f} V{y + HIGH / 2:.0f} {bend} V{v:.0f}"


def _box(room: str, middle: float, top: float) -> str:
    about = first_line(room).replace("&", "&amp;").replace("<", "&lt;").replace("`", "")
    left = middle - BOX / 2
    return (
        f'<g><title>{about}</title><rect x="{left:.0f}" y="{top:.0f}" width="{BOX}" height="{HIGH}" rx="6"/>'
        f'<text x="{middle:.0f}" y="{top + HIGH / 2 + 5:.0f}">{room}</text></g>'
    )
