"""What a worker and a turn are by nothing but the calls that were made."""

from typing import Any

from attrs import define, field

__all__ = ["Model", "Turn"]


@define
class Model:
    """What a worker is by all that was asked of it; `receipts` are (operation, payload, answer) by number."""

    kind: str
    generation: int
    owner: int
    status: str = "registered"
    receipts: list[tuple[str, Any, Any]] = field(factory=list)

    @property
    def live(self) -> bool:
        """Whether it has not ended."""
        return self.status != "terminal"

    def retires(self, number: int) -> bool:
        """Say whether what it answered under a number had only been read."""
        return self.receipts[number - 1][0] == "session.context"


@define
class Turn:
    """The one claim of the session."""

    view: Any
    owner: int
    status: str = "started"
