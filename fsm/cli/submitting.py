"""`fsm submit`: prompts become the queued tasks of a room."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, OptionalGateway, Room, named
from fsm.cli.output import say, say_json
from fsm.cli.refusal import CommandRefusedError, unless_url
from fsm.driver import TaskIdentity, TaskView, admit_task, list_tasks
from fsm.driver.parse import parse_payload
from fsm.errors import DriverValidationError, RoomNotFoundError
from fsm.rooms import RoomView, create_room, local_authority_gateway_id, room_state
from storage import Database

__all__ = ["admit_prompts", "ensure_room", "prompts_in", "submit"]

STANDARD_INPUT = "-"
THREAD = "main"

Prompts = Annotated[list[str] | None, typer.Argument(metavar="[PROMPT]...", help="A prompt; each becomes one task.")]
File = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="A file with one prompt a line; - reads standard input.")
]
Prefix = Annotated[str, typer.Option("--task-prefix", metavar="TEXT", callback=named, help="How the task ids begin.")]
Profile = Annotated[
    str, typer.Option("--profile", metavar="NAME", callback=named, help="The profile that is to answer.")
]


def submit(
    location: Location,
    room: Room,
    prompts: Prompts = None,
    *,
    file: File = None,
    gateway: OptionalGateway = None,
    task_prefix: Prefix = "task",
    profile: Profile = "default",
    as_json: AsJson = False,
) -> None:
    """Admit one task for each prompt, in their order; the room is made where it is absent."""
    wanted = [*(prompts or ()), *(prompts_in(_read(file)) if file is not None else ())]
    if not wanted or not all(prompt.strip() for prompt in wanted):
        raise typer.BadParameter("give at least one prompt, none of them blank", param_hint="PROMPT")
    for number, prompt in enumerate(wanted, start=1):
        _require_admissible(number, prompt, profile)
    with opened(location) as db:
        ensure_room(db, room, gateway)
        for task in admit_prompts(db, room, wanted, prefix=task_prefix, profile=profile):
            say_json(task) if as_json else say(task["identity"].task_id)
            sys.stdout.flush()


def _require_admissible(number: int, prompt: str, profile: str) -> None:
    """Refuse a prompt before any is admitted: half a file must not be submitted and then submitted again."""
    try:
        parse_payload({"target_profile": profile, "prompt": prompt, "source_event_seq": 1})
    except DriverValidationError as error:
        raise CommandRefusedError(f"prompt {number}: {error}; nothing was admitted") from error


def prompts_in(text: str) -> list[str]:
    """Return the prompts of a text: one a line, blank lines skipped."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def _read(file: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise CommandRefusedError(f"cannot read {unless_url(file)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandRefusedError(f"{unless_url(file)} is not UTF-8 text") from error


def ensure_room(db: Database, room_id: str, gateway_id: str | None) -> RoomView:
    """Return the room, made where it is absent. An existing one must be the named gateway's, where one is named."""
    try:
        room: RoomView = room_state(db, room_id=room_id)
    except RoomNotFoundError:
        authority = gateway_id or local_authority_gateway_id()
        room = create_room(db, room_id=room_id, name=room_id, members=[], authority_gateway_id=authority)
    if gateway_id not in {None, room["authority_gateway_id"]}:
        raise CommandRefusedError(f"room {room_id} belongs to gateway {room['authority_gateway_id']}")
    return room


def admit_prompts(db: Database, room_id: str, prompts: list[str], *, prefix: str, profile: str) -> Iterator[TaskView]:
    """Admit a task for each prompt behind everything that the room already has, and yield each as it is admitted."""
    first = _highest_sequence(db, room_id) + 1
    for sequence, prompt in enumerate(prompts, start=first):
        payload = {"target_profile": profile, "prompt": prompt, "source_event_seq": sequence}
        yield admit_task(db, _new_identity(room_id, prefix, db.new_id()), payload=payload)


def _new_identity(room_id: str, prefix: str, unique: str) -> TaskIdentity:
    return TaskIdentity(room_id, f"{prefix}-{unique}", THREAD, f"turn-{unique}")


def _highest_sequence(db: Database, room_id: str) -> int:
    """Return the highest sequence number in the room, of its tasks or of its events."""
    payloads = [task["payload"] for task in list_tasks(db, room_id=room_id)]
    sequences = [payload["source_event_seq"] for payload in payloads if payload is not None]
    return max([room_state(db, room_id=room_id)["latest_seq"], *sequences])
