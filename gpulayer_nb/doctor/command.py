"""`gpulayer doctor`: its place on the command line, and the findings as text or JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulayer_nb.doctor.findings import Finding

SUMMARY = "what this machine can run, what is wrong and how to mend it"
_SIGNS = {"ok": "ok    ", "note": "note  ", "broken": "BROKEN"}


def add_to(subcommands: Any) -> None:
    parser = subcommands.add_parser(
        "doctor", help=SUMMARY, description=f"{SUMMARY}; exit code 0 if nothing is broken, else 1", allow_abbrev=False
    )
    parser.add_argument("--controller", type=Path, metavar="FILE", help="see whether the controller of this file answers too")
    parser.add_argument("--json", action="store_true", help="facts and findings as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from gpulayer_nb.doctor.findings import findings, is_well
    from gpulayer_nb.doctor.look import look

    facts = look(options.controller)
    found = findings(facts)
    if options.json:
        report = {"well": is_well(found), "findings": [asdict(finding) for finding in found], "facts": asdict(facts)}
        print(json.dumps(report, indent=1))
    else:
        print(as_text(found))
    return 0 if is_well(found) else 1


def as_text(found: list[Finding]) -> str:
    """One line a finding, its mend below it; the last line says how many are broken."""
    width = max(len(finding.topic) for finding in found)
    lines = []
    for finding in found:
        lines.append(f"{_SIGNS[finding.level]}  {finding.topic:<{width}}  {finding.text}")
        if finding.mend:
            lines.append(f"{'':6}  {'':<{width}}  → {finding.mend}")
    broken = sum(finding.level == "broken" for finding in found)
    lines.append("All is well." if not broken else f"{broken} broken.")
    return "\n".join(lines)
