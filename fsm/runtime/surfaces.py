"""What a session's source says of where it was created."""

from storage import Value

__all__ = ["UNSET", "created_surface"]

UNSET = ("", "unknown")
"""What `created_source` may hold that says nothing; such a value, or none, may still be filled in."""


def created_surface(source: Value) -> str | None:
    """Return the source as `created_source` stores it, or None where it says nothing."""
    if not isinstance(source, str) or source in UNSET:
        return None
    return "desktop" if source == "gui" else source
