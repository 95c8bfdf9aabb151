"""Bars as SVG: one group a metric, one bar a policy, each against the best peer."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

_WIDTH, _ROW, _LEFT, _TOP = 720, 18, 150, 34
_COLOURS = {"trimtab": "#0b6e4f", "clairvoyant": "#999", "oracle": "#999"}


def bars(title: str, values: Mapping[str, float], unit: str, most: float) -> str:
    """Return a chart of one value a policy; bars past `most` are cut and say so."""
    height = _TOP + _ROW * len(values) + 10
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="20" font-size="14">{escape(title)}</text>',
    ]
    room = _WIDTH - _LEFT - 90
    for index, (name, value) in enumerate(values.items()):
        y = _TOP + _ROW * index
        width = room * min(1.0, value / most)
        colour = _COLOURS.get(name, "#5b84b1")
        mark = " »" if value > most else ""
        lines += [
            (
                f'<text x="{_LEFT - 6}" y="{y + 12}" text-anchor="end">'
                f"{escape(name)}</text>"
            ),
            (
                f'<rect x="{_LEFT}" y="{y + 2}" width="{width:.1f}" height="12" '
                f'fill="{colour}"/>'
            ),
            (
                f'<text x="{_LEFT + width + 5:.1f}" y="{y + 12}">'
                f"{value:.3g} {escape(unit)}{mark}</text>"
            ),
        ]
    return "\n".join((*lines, "</svg>", ""))


def lines_of(
    title: str, points: Mapping[str, Sequence[tuple[str, float]]], unit: str
) -> str:
    """Return a chart of a line a policy over named steps."""
    height, bottom = 300, 260
    most = max(value for series in points.values() for _, value in series) * 1.05
    steps = [name for name, _ in next(iter(points.values()))]
    gap = (_WIDTH - _LEFT - 60) / max(1, len(steps) - 1)
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="20" font-size="14">{escape(title)}</text>',
        (
            f'<line x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH - 40}" y2="{bottom}" '
            'stroke="#333"/>'
        ),
    ]
    for index, step in enumerate(steps):
        out.append(
            f'<text x="{_LEFT + gap * index:.0f}" y="{bottom + 18}" '
            f'text-anchor="middle">{escape(step)}</text>'
        )
    for name, series in points.items():
        spots = [
            (_LEFT + gap * i, bottom - (bottom - 40) * value / most)
            for i, (_, value) in enumerate(series)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        colour = _COLOURS.get(name, "#5b84b1")
        x, y = spots[0]
        out += [
            (
                f'<polyline points="{path}" fill="none" stroke="{colour}" '
                'stroke-width="2"/>'
            ),
            (
                f'<text x="{x - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">'
                f"{escape(name)} {series[0][1]:.3g} {escape(unit)}</text>"
            ),
        ]
    return "\n".join((*out, "</svg>", ""))
