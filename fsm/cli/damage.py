"""What a command says where rows hold what no release ever wrote, and a call stumbles over it."""

from collections.abc import Iterator
from contextlib import contextmanager

from fsm.cli.refusal import CommandRefusedError
from fsm.errors import LifecycleError

__all__ = ["damage_refused"]


@contextmanager
def damage_refused() -> Iterator[None]:
    """Refuse where the block fails over a stored value of a wrong type; the value itself is a user's and not shown.

    A declaration's own refusals pass: they say what they mean.
    """
    try:
        yield
    except LifecycleError:
        raise
    except (TypeError, ValueError, OverflowError) as damage:
        raise CommandRefusedError(
            f"a stored row is damaged and cannot be read ({type(damage).__name__}); restore it from a backup"
        ) from damage
