"""Rounds -> medians and their spread, a table, and whether the limits are met."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from tests.benchmarks.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OTHERS = ("peer", "sdk", "floor", "limit")
_START_UP: dict[str, tuple[str, dict[str, float], dict[str, float]]] = {
    "import": ("import of the package", {"peer": 0.7}, {"floor": 1.02}),
    "first_byte": ("import to first byte sent", {"peer": 1.0}, {}),
}
_COPIES, _COPIES_AIM = 4.05, 3.05
"""Four and three copies, with some room for everything else."""
_GROWTH_MEGABYTES = 1.5
_LINEAR = 6.0


def summarise(measured: dict[str, Any]) -> dict[str, Any]:
    """Return rows with ratios, limits, and whether the limits are met."""
    rows = [
        _row(name, row.title, measured["scenarios"][name]["rounds"], row.must, row.aim)
        for name, row in SCENARIOS.items()
        if name in measured["scenarios"]
    ]
    if "start_up" in measured:
        rows += [
            _row(name, title, measured["start_up"][name]["rounds"], must, aim)
            for name, (title, must, aim) in _START_UP.items()
        ]
    summary: dict[str, Any] = {"environment": measured["environment"], "rows": rows}
    if "loop" in measured["scenarios"]:
        summary["loop_cpu_seconds_by_turn"] = measured["scenarios"]["loop"]["growth"]
    summary["facts"] = [*_linearity(rows), *_start_up_facts(measured), *_memory_facts(measured)]
    return summary


def _row(
    name: str,
    title: str,
    rounds: Sequence[Mapping[str, float]],
    must: Mapping[str, float],
    aim: Mapping[str, float],
) -> dict[str, Any]:
    ratios = {
        other: _spread([cpu["ours"] / cpu[other] for cpu in rounds])
        for other in _OTHERS
        if other in rounds[0]
    }
    return {
        "name": name,
        "title": title,
        "cpu_ms": {n: _spread([1000 * cpu[n] for cpu in rounds]) for n in rounds[0]},
        "ours_divided_by": ratios,
        "must": {n: [most, ratios[n]["median"] <= most] for n, most in must.items()},
        "aim": {n: [most, ratios[n]["median"] <= most] for n, most in aim.items()},
        "rounds": len(rounds),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the quartiles; of few values, the lowest and the highest."""
    low, high = min(values), max(values)
    if len(values) >= 4:
        low, _, high = statistics.quantiles(values, n=4)
    return {
        "median": round(statistics.median(values), 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def _linearity(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    costs = {row["name"]: row["cpu_ms"]["ours"]["median"] for row in rows}
    if not costs.keys() >= {"turns_200", "turns_1000"}:
        return []
    times = costs["turns_1000"] / costs["turns_200"]
    return [_fact("cost from 200 to 1,000 turns", f"{times:.1f} x", "≤ 6 x", times <= _LINEAR)]


def _start_up_facts(measured: dict[str, Any]) -> list[dict[str, Any]]:
    if "start_up" not in measured:
        return []
    loaded = measured["start_up"]["sdk_is_loaded_by_import"]
    return [_fact("google.genai is loaded by the import", str(loaded), "False", not loaded)]


def _memory_facts(measured: dict[str, Any]) -> list[dict[str, Any]]:
    if "memory" not in measured:
        return []
    image = {name: found["copies"] for name, found in measured["memory"]["image"].items()}
    growth = {name: found["megabytes"] for name, found in measured["memory"]["growth"].items()}
    copies = ", ".join(f"{name} {value:.1f}" for name, value in image.items())
    grown = ", ".join(f"{name} {values[-1]:.1f} MB" for name, values in growth.items())
    by_thousand = ", ".join(f"{value:.1f}" for value in growth["ours"])
    return [
        _fact("10 MB image: copies of its base64", copies, "≤ 4", image["ours"] <= _COPIES),
        _fact("the same, aim", f"ours {image['ours']:.1f}", "3", image["ours"] <= _COPIES_AIM),
        _fact(
            "growth over 5,000 calls after warm-up",
            f"{grown} (ours by thousand: {by_thousand})",
            "≤ 1.5 MB",
            growth["ours"][-1] <= _GROWTH_MEGABYTES,
        ),
    ]


def _fact(title: str, value: str, limit: str, holds: object) -> dict[str, Any]:
    return {"title": title, "value": value, "limit": limit, "holds": bool(holds)}


def render_table(summary: Mapping[str, Any]) -> str:
    """Return the rows in Markdown: our CPU time, its ratio to each other subject, the limits."""
    lines = [
        "| scenario | ours, ms CPU | ÷ peer | ÷ sdk | ÷ floor | ÷ limit | must | aim |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in summary["rows"]:
        ratios = [_render_spread(row["ours_divided_by"].get(other)) for other in _OTHERS]
        cells = [row["title"], _render_spread(row["cpu_ms"]["ours"]), *ratios]
        cells += [_limits(row["must"]), _limits(row["aim"])]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| | | limit | |", "|---|---|---|---|"]
    for fact in summary["facts"]:
        cells = [fact["title"], fact["value"], fact["limit"], "yes" if fact["holds"] else "NO"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _render_spread(spread: Mapping[str, float] | None) -> str:
    if spread is None:
        return ""
    return f"{spread['median']:.3g} ({spread['low']:.3g} to {spread['high']:.3g})"


def _limits(limits: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{most:g} x {name}: {'yes' if holds else 'NO'}" for name, (most, holds) in limits.items()
    )
