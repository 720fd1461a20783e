"""What a stored row adds to the message that it stores."""

from typing import Any, Final

from fsm.runtime.parse import call, refusing
from storage import instance

__all__ = ["row_annotations"]

KEYS: Final = ("_row_id", "timestamp")


@call
def row_annotations(messages: object) -> list[dict[str, Any]]:
    """Return of each message what its row adds to it: `_row_id` and `timestamp`, None where it has no such.

    Raises RuntimeStoreError(invalid_params) for anything but a list of objects.
    """
    listed: list[object] = instance(messages, list, label="messages", error=refusing("messages"))
    return [_annotation(instance(each, dict, label="messages", error=refusing("messages"))) for each in listed]


def _annotation(message: dict[str, Any]) -> dict[str, Any]:
    return {name: message.get(name) for name in KEYS}
