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
    before, _, after = _parted(document)
    document.write_text(f"{before}{BEGIN}\n{table.strip()}\n{END}{after}")


def update(document: Path, table: str) -> None:
    """Put these rows in the place of the same ones between the marks; the others stay."""
    put_into(document, merged(_parted(document)[1].strip(), table.strip()))


def _parted(document: Path) -> tuple[str, str, str]:
    text = document.read_text()
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{document} has no lines `{BEGIN}` and `{END}`")
    before, rest = text.split(BEGIN, 1)
    return before, *rest.split(END, 1)


def merged(old: str, new: str) -> str:
    """The new table's rows in place of the old one's, and the old one's other rows.

    Raises:
        SystemExit: those are of another day or machine.
    """
    parts = [(_rows(before), _rows(now)) for before, now in zip(old.split("\n\n"), new.split("\n\n"), strict=False)]
    staying = [key for before, now in parts for key in before if key not in now]
    if staying and old.splitlines()[0] != new.splitlines()[0]:
        raise SystemExit(
            f"{len(staying)} rows of the document were not measured now, and are of another day or machine. Next: measure all, "
            f"or give what was measured with --keep.\n  there: {old.splitlines()[0]}\n  now:   {new.splitlines()[0]}"
        )
    if not staying:
        return new
    return "\n\n".join("\n".join({**before, **now}.values()) for before, now in parts)


def _rows(part: str) -> dict[tuple[str, ...], str]:
    """Lines by what they are about: benchmark and contender, of a goal also what is asked; a sentence has no cells."""
    columns = (1, 3) if "| goal |" in part else (1, 2)
    return {tuple(line.split("|")[column] for column in columns if "|" in line): line for line in part.splitlines()}
