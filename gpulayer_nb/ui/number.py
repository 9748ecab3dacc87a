"""How numbers and times read.

Runs in the kernel. Owns the writing of counts, rates, metrics, clocks and sizes. Must not know where they stand.
"""

from __future__ import annotations

import math

THIN = "\u202f"  # narrow no-break space between thousands
UNKNOWN = "–"


def count(number: int | None) -> str:
    """`1 077`, with a narrow space."""
    return UNKNOWN if number is None else f"{number:,}".replace(",", THIN)


def rate(number: float | None) -> str:
    """Three significant digits: `5 230`, `41.2`, `0.873`."""
    if number is None or not math.isfinite(number):
        return UNKNOWN
    if number == 0:
        return "0"
    rounded = float(f"{number:.2e}")
    digits = 2 - math.floor(math.log10(abs(rounded)))
    return count(int(rounded)) if abs(rounded) >= 100 else f"{rounded:.{max(0, digits)}f}"


def metric(number: float | None) -> str:
    """Three decimals; `4.2e-4` below 0.001 and `1.23e7` from a million on. `NaN`, `∞` are values, `–` is none."""
    if number is None:
        return UNKNOWN
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    size = abs(number)
    if size == 0:
        return "0"
    if size < 0.0005 or size >= 999_999.5:
        mantissa, exponent = f"{number:.{1 if size < 1 else 2}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{number:,.3f}".replace(",", THIN)


def clock(seconds: float | None) -> str:
    """`0:28`, `1:02:03`, `2 d 04:11`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24} d {hours % 24:02d}:{minute:02d}"
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def duration(seconds: float) -> str:
    """Inside a sentence: `0.3 s`, `1.4 s`, `12 s`, from two minutes on a clock."""
    if seconds >= 119.5:
        return clock(seconds)
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"


def memory(size_bytes: int | None) -> str:
    """Whole MiB below 1 GiB, then three digits of GiB."""
    if size_bytes is None:
        return UNKNOWN
    mib = size_bytes / 2**20
    if mib < 1023.5:
        return f"{mib:.0f} MiB"
    gib = mib / 1024
    return f"{gib:.{2 if gib < 9.995 else 1 if gib < 99.95 else 0}f} GiB"
