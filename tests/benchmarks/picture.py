"""Draws the cost of the loop by its number of turns, as an SVG, without a library."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 230, 56, 52
_LINES = {
    "peer": ("langchain-google-genai", "#d1495b"),
    "sdk": ("google-genai, bare", "#edae49"),
    "ours": ("ChatGemini", "#00798c"),
    "limit": ("httpx + json, the limit", "#8a8d91"),
}
_STYLE = (
    ".ink{fill:#222}.soft{fill:#555}.axis{stroke:#555}.grid{stroke:#e3e5e8}"
    "@media (prefers-color-scheme:dark){"
    ".ink{fill:#e6e8eb}.soft{fill:#a4abb4}.axis{stroke:#a4abb4}.grid{stroke:#343b46}}"
)
"""The background is transparent, so that the picture suits light and dark pages."""
_FIRST_TURN = 5
_LABEL_HEIGHT = 16


def render_picture(growth: Mapping[str, Sequence[float]]) -> str:
    """Draw the CPU seconds of a loop after each of its turns; both axes are logarithmic.

    Args:
        growth: For each subject, CPU seconds after turn 1, 2, 3 and so on.
    """
    drawn = {name: growth[name] for name in _LINES if name in growth}
    turns = len(next(iter(drawn.values())))
    values = [value for line in drawn.values() for value in line[_FIRST_TURN - 1 :]]
    low, high = 10 ** math.floor(math.log10(min(values))), max(values) * 1.6
    shapes = [*_axes(turns, low, high)]
    below = 0.0
    for name, line in sorted(drawn.items(), key=lambda item: -item[1][-1]):
        below = max(_y(line[-1], low, high) + 4, below + _LABEL_HEIGHT)
        shapes += [_line(name, line, turns, low, high), _label(name, line[-1], below)]
    title = f"CPU time of an agent loop of {turns} tool turns"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{title}" font-family="system-ui, sans-serif" font-size="13">\n'
        f"<style>{_STYLE}</style>\n"
        f'<text x="{_LEFT}" y="30" font-size="16" font-weight="600" class="ink">{title}</text>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def _x(turn: float, turns: int) -> float:
    share = math.log(turn / _FIRST_TURN) / math.log(turns / _FIRST_TURN)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, low: float, high: float) -> float:
    share = math.log(value / low) / math.log(high / low)
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _axes(turns: int, low: float, high: float) -> list[str]:
    shapes: list[str] = []
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    tick = low
    while tick <= high:
        y = _y(tick, low, high)
        label = f"{tick:g} s" if tick >= 1 else f"{tick * 1000:g} ms"
        shapes.append(f'<path d="M{_LEFT} {y:.1f}H{right}" class="grid"/>')
        shapes.append(_text(_LEFT - 8, y + 4, label, "end"))
        tick *= 10
    for turn in (5, 10, 20, 50, 100, 200, 500, 1000):
        if turn <= turns:
            x = _x(turn, turns)
            shapes.append(f'<path d="M{x:.1f} {bottom}v5" class="axis"/>')
            shapes.append(_text(x, bottom + 20, str(turn), "middle"))
    shapes.append(f'<path d="M{_LEFT} {bottom}H{right}" class="axis"/>')
    shapes.append(_text((_LEFT + right) / 2, _HEIGHT - 12, "tool turns so far", "middle"))
    return shapes


def _line(name: str, line: Sequence[float], turns: int, low: float, high: float) -> str:
    _, colour = _LINES[name]
    points = [
        f"{_x(turn, turns):.1f},{_y(value, low, high):.1f}"
        for turn, value in enumerate(line, start=1)
        if turn >= _FIRST_TURN
    ]
    path = " ".join(points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'


def _label(name: str, seconds: float, y: float) -> str:
    words, colour = _LINES[name]
    return _text(
        _WIDTH - _RIGHT + 8, y, f"{words}: {seconds:.2g} s", "start", f'style="fill:{colour}"'
    )


def _text(x: float, y: float, words: str, anchor: str, style: str = 'class="soft"') -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style} text-anchor="{anchor}">{words}</text>'
