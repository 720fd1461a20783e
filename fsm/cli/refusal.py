"""What a command says when it stops without having done what was asked."""

__all__ = ["CommandRefusedError", "holds_url", "one_line", "unless_url"]

_LONGEST_LINE = 400


class CommandRefusedError(Exception):
    """The command ends with exit code 1 and this one line."""


def holds_url(typed: str) -> bool:
    """Say whether a text may hold the URL of a database, also one that has lost a slash, and with it a password."""
    return ":/" in typed


def unless_url(typed: str) -> str:
    """Return what was typed for a file or a command, to be told to people; a URL is not repeated."""
    return "a URL" if holds_url(typed) else typed


def one_line(error: object) -> str:
    """Return a message as one printable line."""
    words = " ".join(str(error).split())
    printable = "".join(character if character.isprintable() else "?" for character in words)
    return printable if len(printable) <= _LONGEST_LINE else printable[:_LONGEST_LINE] + "..."
