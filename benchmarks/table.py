"""The measurements as a table in Markdown, put between two marks of a document; nobody types a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def markdown(report: dict[str, Any]) -> str:
    """All results of a report, one table for what was measured and one for the goals."""
    machine = report["machine"]
    where = f"{machine['cores']} cores ({machine['processor']})"
    lines = [
        f"Measured on {machine['day']}: {where}, Python {machine['python']}, torch {machine['torch']}.",
        "",
        "| benchmark | contender | median | spread | ratio to the peer | rounds |",
        "|---|---|---|---|---|---|",
    ]
    for result in report["results"]:
        for one in result["contenders"]:
            values = one["values"]
            lines.append(
                f"| `{result['benchmark']}` | {one['contender']} | {one['median']:.4g} {result['unit']} | "
                f"{min(values):.4g} – {max(values):.4g} | {ratio(one['ratio'])} | {len(values)} |"
            )
    lines += ["", "| goal | against | asked | measured | reached |", "|---|---|---|---|---|"]
    for result in report["results"]:
        for goal in result["goals"]:
            number = f"{goal['measured']:.3g}" + ("×" if goal["kind"] == "ratio" else f" {result['unit']}")
            lines.append(
                f"| `{result['benchmark']}`: {goal['contender']} | {goal['against'] or '–'} | {goal['text']} | {number} | "
                f"{'yes' if goal['reached'] else 'no'} |"
            )
    return "\n".join(lines) + "\n"


def ratio(number: float | None) -> str:
    return "–" if number is None else f"{number:.3g}×"


def put_into(document: Path, table: str) -> None:
    """Replace what stands between the marks."""
    text = document.read_text()
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{document} has no lines `{BEGIN}` and `{END}`")
    before, rest = text.split(BEGIN, 1)
    document.write_text(f"{before}{BEGIN}\n{table}{END}{rest.split(END, 1)[1]}")
