"""Views as JSON values: what a caller holds as a value class becomes an object."""

from collections.abc import Mapping
from typing import Any

from attrs import asdict, has

__all__ = ["to_json"]


def to_json(view: Any) -> Any:
    """Return a view, or a list of views, with every value class spelled as an object, ready for `json.dumps`."""
    if has(type(view)):
        return asdict(view)
    if isinstance(view, Mapping):
        return {key: to_json(value) for key, value in view.items()}
    if isinstance(view, list | tuple):
        return [to_json(entry) for entry in view]
    return view
