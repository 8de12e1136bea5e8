"""Bars, as SVG: on a ground of their own, so that they can be read on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, LABEL, VALUE, BAR, GAP, MARGIN = 760, 150, 110, 16, 6, 18
COLOURS = {"bee": "#e0a100", "limit": "#8d99a6", "peer": "#4a7fb5"}


class Bar(NamedTuple):
    """One bar: what it is of, how long, and what stands at its end. Without a value, only that."""

    label: str
    value: float | None
    text: str
    kind: str


class Panel(NamedTuple):
    """Bars that are compared with each other."""

    title: str
    bars: Sequence[Bar]


def draw(title: str, panels: Sequence[Panel], foot: str) -> str:
    """The picture."""
    parts: list[str] = []
    y = MARGIN + 18
    parts.append(_text(MARGIN, y, title, size=17, weight="bold"))
    for panel in panels:
        y += 32
        parts.append(_text(MARGIN, y, panel.title, size=13, weight="bold"))
        y += 8
        most = max((bar.value for bar in panel.bars if bar.value is not None), default=1.0) or 1.0
        for bar in panel.bars:
            parts += _bar(y, bar, most)
            y += BAR + GAP
    y += 22
    parts.append(_text(MARGIN, y, foot, size=11, colour="#5c6670"))
    height = y + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
            f' height="{height}" role="img" font-family="sans-serif">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fcfbf7" stroke="#c9ccd1"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _bar(y: int, bar: Bar, most: float) -> list[str]:
    middle, start = y + BAR - 4, MARGIN + LABEL
    bold = "bold" if bar.kind == "bee" else "normal"
    parts = [_text(start - 8, middle, bar.label, anchor="end", weight=bold)]
    length = 0.0
    if bar.value is not None:
        length = max(1.5, (WIDTH - start - VALUE - MARGIN) * bar.value / most)
        colour = COLOURS[bar.kind]
        parts.append(
            f'<rect x="{start}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
        )
    parts.append(_text(start + length + 6, middle, bar.text, weight=bold))
    return parts


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    anchor: str = "start",
    weight: str = "normal",
    colour: str = "#22272e",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="{size}" text-anchor="{anchor}"'
        f' font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
    )
