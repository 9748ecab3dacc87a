"""Brings a run's results back into the notebook: weights into the model that is there, values into names.

Runs in the kernel. Touches torch objects through their own methods only; must not import torch.
"""

from __future__ import annotations

import pickle
import warnings
from typing import Any

from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.client.session import Session, SessionOutcome
from gpulayer_nb.errors import ShippingError, UsageError
from gpulayer_nb.shipping.free_names import bound_names


def bring_model(session: Session, request: RunRequest, outcome: SessionOutcome) -> Any:
    """The notebook's model after the run; None if the run has none. An existing model is changed in place."""
    if outcome.model is None:
        return None
    name = request.names.model
    if request.mode == "fit":
        load_in_place(request.values[name], outcome.model, "model")
        return request.values[name]
    return put_in_notebook(session, name, outcome.model, in_place=outcome.ranks.results[0].model_in_place)


def put_in_notebook(session: Session, name: str, returned: Any, *, in_place: bool) -> Any:
    """Weights into the notebook's model of that name, or a whole model under that name; returns the model."""
    if in_place and name in session.namespace:
        load_in_place(session.namespace[name], returned, name)
    elif in_place:
        raise UsageError(
            f"The run's weights are for the notebook's `{name}`, which this notebook has not. Next: make it, then attach."
        )
    else:
        session.namespace[name] = returned
    session.returned(name)
    return session.namespace[name]


def load_in_place(model: Any, state: dict[str, Any], name: str) -> None:
    """Copies a state_dict into a model; parts that do not fit are named in a warning and left as they are."""
    own = model.state_dict()
    misfits = [key for key in state if key in own and getattr(own[key], "shape", None) != getattr(state[key], "shape", None)]
    fitting = {key: value for key, value in state.items() if key not in misfits}
    keys = model.load_state_dict(fitting, strict=False)
    parts = {
        "were made on the ranks only": keys.unexpected_keys,
        "did not come back": [key for key in keys.missing_keys if key not in misfits],
        "have another shape on the ranks": misfits,
    }
    for what, names in parts.items():
        if names:
            warnings.warn(f"{', '.join(names)} of `{name}` {what}; the notebook's `{name}` is unchanged there.", stacklevel=2)


def bring_callbacks(session: Session, request: RunRequest, outcome: SessionOutcome) -> None:
    """Rank 0's plain attributes into the notebook's callbacks, such as `best_model_path`; not into those that the cell made."""
    result = outcome.ranks.results.get(0)
    name = request.names.callbacks
    if result is None or result.callbacks is None or result.called_fit or name in bound_names(request.python):
        return
    own = request.values.get(name) if request.mode == "fit" else session.namespace.get(name)
    returned = pickle.loads(result.callbacks)
    if isinstance(own, (list, tuple)) and len(own) == len(returned):
        for callback, attributes in zip(own, returned, strict=True):
            vars(callback).update(attributes)


def bring_values(outcome: SessionOutcome) -> list[Any]:
    """The last expression's value of each rank, in rank order; None for a rank without one.

    Raises:
        ShippingError: a value cannot be sent.
    """
    for rank, result in sorted(outcome.ranks.results.items()):
        if result.value_error:
            raise ShippingError(f"The value of rank {rank} cannot be sent to the notebook: {result.value_error}")
    return [outcome.values.get(rank) for rank in range(outcome.group.topology.world_size)]
