"""Run the command line: `fsm ...` or `python -m fsm ...`."""

import sys
from collections.abc import Sequence

_OF_THE_EXTRA = frozenset({"click", "rich", "typer"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 refused, 2 a mistake in the call."""
    try:
        from fsm.cli.app import run  # noqa: PLC0415 # the library works without the extra; only the command needs it
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _OF_THE_EXTRA:
            raise
        sys.stderr.write(f"fsm: {missing} is missing; install it with: pip install 'gateway-fsm[cli]'\n")
        return 2
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
