"""The shape and the word of every state.

Runs in the kernel. Owns icons. Must not know what changes a state.
"""

from __future__ import annotations

SHAPES: dict[str, tuple[str, str]] = {  # state: (character in text, drawing in a 16 x 16 box; class f is filled)
    "starting": ("◌", '<g class="turn"><path d="M8 2.8a5.2 5.2 0 1 1-5.2 5.2"/></g>'),
    "running": ("●", '<circle class="f" cx="8" cy="8" r="5.2"/>'),
    "waiting": ("‖", '<path d="M5.5 3.5v9M10.5 3.5v9" stroke-width="2.4"/>'),
    "idle": ("○", '<circle cx="8" cy="8" r="4.6"/>'),
    "stopping": ("□", '<rect x="3.8" y="3.8" width="8.4" height="8.4"/>'),
    "stopped": ("■", '<rect class="f" x="3.6" y="3.6" width="8.8" height="8.8"/>'),
    "finished": ("✓", '<path d="M3 8.6l3.4 3.4L13 4.8" stroke-width="2"/>'),
    "silent": ("?", '<circle cx="8" cy="8" r="5.4" stroke-dasharray="2.2 2.6"/><path d="M8 5.2v3.4M8 11v.1"/>'),
    "failed": ("✗", '<path d="M4 4l8 8M12 4l-8 8" stroke-width="2.2"/>'),
    "dead": ("⊘", '<circle cx="8" cy="8" r="5.4"/><path d="M4.2 11.8l7.6-7.6"/>'),
    "warning": ("⚠", '<path d="M8 2.4l6.2 11H1.8z"/><path d="M8 6.6v3.1"/><circle class="f" cx="8" cy="11.6" r=".9"/>'),
}


def icon(state: str) -> str:
    """The state's SVG; hidden from screen readers, for its word stands beside it."""
    drawing = SHAPES.get(state, SHAPES["idle"])[1]
    return f'<svg class="gpl-i {state if state in SHAPES else "idle"}" viewBox="0 0 16 16" aria-hidden="true">{drawing}</svg>'


def sign(state: str) -> str:
    """The state's character, for text."""
    return SHAPES.get(state, SHAPES["idle"])[0]
