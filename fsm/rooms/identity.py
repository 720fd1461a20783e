"""Where this install keeps its state, and who it is."""

import contextlib
import os
import tempfile
import uuid
from pathlib import Path

from fsm.errors import HostedRoomError
from fsm.rooms.parse import parse_gateway

__all__ = ["default_db_path", "local_authority_gateway_id"]

_IDENTITY_FILE = "install_id"


def _home() -> Path:
    try:
        home = Path(os.environ.get("GATEWAY_HOME") or Path.home() / ".gateway").expanduser()
    except RuntimeError as error:
        raise HostedRoomError("GATEWAY_HOME must name a directory; it begins with the home of nobody") from error
    return home.parent.parent if home.parent.name == "profiles" else home


def default_db_path() -> Path:
    """Return `state.db` in GATEWAY_HOME (default `~/.gateway`), or above it for a home inside a folder `profiles`.

    Raises HostedRoomError where the user, or the one that GATEWAY_HOME names, has no home.
    """
    return _home() / "state.db"


def local_authority_gateway_id() -> str:
    """Return `install:` and the UUID of this install, made once and kept in the file `install_id` beside `state.db`.

    Raises HostedRoomError where the file cannot be made or does not hold a UUID.
    """
    path = _home() / _IDENTITY_FILE
    try:
        if not path.exists():
            _make_once(path)
        install = str(uuid.UUID(path.read_text(encoding="ascii").strip()))
    except (OSError, ValueError) as error:
        raise HostedRoomError(
            f"the install's identity must be a UUID in a readable file {_IDENTITY_FILE}; mend it"
        ) from error
    return parse_gateway(f"install:{install}", "authority_gateway_id")


def _make_once(path: Path) -> None:
    """Link a finished file into place: whoever comes second finds the first one's, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{_IDENTITY_FILE}-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{uuid.uuid4()}\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink()
