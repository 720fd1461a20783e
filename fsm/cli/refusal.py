"""What a command says when it stops without having done what was asked."""

__all__ = ["CommandRefusedError", "one_line"]

_LONGEST_LINE = 400


class CommandRefusedError(Exception):
    """The command ends with exit code 1 and this one line."""


def one_line(error: object) -> str:
    """Return a message as one printable line."""
    words = " ".join(str(error).split())
    printable = "".join(character if character.isprintable() else "?" for character in words)
    return printable if len(printable) <= _LONGEST_LINE else printable[:_LONGEST_LINE] + "..."
