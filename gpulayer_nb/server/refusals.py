"""What the server part refuses beyond a wrong value. Owns the two kinds that HTTP has words for."""

from __future__ import annotations

from gpulayer_nb.errors import UsageError


class NotThereError(UsageError):
    """No cluster, engine or run of that name (any more)."""


class NotNowError(UsageError):
    """It cannot be done in the present state; says what can."""
