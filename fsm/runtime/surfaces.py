"""What a session's source says of where it was created."""

from fsm.lifecycles.runtime_tables import UNSET_SOURCES
from storage import Value

__all__ = ["created_surface"]


def created_surface(source: Value) -> str | None:
    """Return the source as `created_source` stores it, or None where it says nothing."""
    if not isinstance(source, str) or source in UNSET_SOURCES:
        return None
    return "desktop" if source == "gui" else source
