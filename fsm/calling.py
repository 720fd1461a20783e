"""The door of every public operation: a call with the wrong arguments is refused as any other bad input is."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["operation"]

P = ParamSpec("P")
R = TypeVar("R")


def operation(error: Callable[[str], Exception]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that raises `error` where a call lacks an argument or has one too many."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError as wrong:
                # Only a call that never reached the function's body has no frame below this one.
                if wrong.__traceback__ is not None and wrong.__traceback__.tb_next is None:
                    raise error(f"{wrong}; pass the arguments that the function's signature names") from wrong
                raise

        return call

    return decorate
