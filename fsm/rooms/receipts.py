"""Remote-run receipts: under which run and session another gateway works on a task of a room of this one."""

from collections.abc import Mapping
from typing import TypedDict, cast

from fsm.calling import operation
from fsm.errors import HostedRoomError
from fsm.lifecycle import given
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles.tables import REMOTE_RUNS
from fsm.rooms.parse import Location, opened, opened_at, parse_link_text, parse_profile, parse_room_id
from fsm.rooms.records import fields_of, parse_run
from storage import Transaction, Value

__all__ = ["RemoteRunReceipt", "list_remote_run_receipts", "remote_run_receipt", "upsert_remote_run_receipt"]


class RemoteRunReceipt(TypedDict):
    """A receipt as stored; instants are seconds."""

    room_id: str
    home_install_id: str
    authority_gateway_id: str
    authority_epoch: int
    member_id: str
    task_id: str
    execution_generation: int
    target_install_id: str
    target_profile: str
    run_id: str
    session_id: str
    created_at: float
    updated_at: float


_COLUMNS = tuple(column.name for column in REMOTE_RUNS.columns)
_SELECT = f"SELECT {', '.join(map(quoted, _COLUMNS))} FROM {REMOTE_RUNS.name}"
_ORDER = ("created_at", "task_id", "execution_generation")
_ORDERED = f"ORDER BY {', '.join(dict.fromkeys((*_ORDER, *REMOTE_RUNS.primary_key)))}"
_ONE = f"{_SELECT} WHERE {sql(given(*REMOTE_RUNS.primary_key))}"
_GIVEN = tuple(name for name in _COLUMNS if name not in ("created_at", "updated_at"))
_UPSERT = (
    f"INSERT INTO {REMOTE_RUNS.name} ({', '.join(_GIVEN)}, created_at, updated_at)"
    f" VALUES ({', '.join(f':{name}' for name in _GIVEN)}, :now, :now)"
    f" ON CONFLICT ({', '.join(REMOTE_RUNS.primary_key)}) DO UPDATE SET updated_at = excluded.updated_at"
    f" WHERE {REMOTE_RUNS.name}.run_id = excluded.run_id AND {REMOTE_RUNS.name}.session_id = excluded.session_id"
    " RETURNING run_id"
)


@operation(HostedRoomError)
def upsert_remote_run_receipt(db: Location, *, record: Mapping[str, object], now: object = None) -> None:
    """Bind one execution of a task to the run and session that another gateway has for it.

    The record has the fields of RemoteRunReceipt but for the instants; others are ignored. An exact retry keeps what is
    stored and moves `updated_at`. Raises HostedRoomError, also where the execution is bound to another run.
    """
    fields = fields_of(record, ("run_id", "session_id"), label="record")
    receipt = {**parse_run(record), **{name: parse_link_text(value, name) for name, value in fields.items()}}
    handle, at = opened_at(db, now)

    def body(tx: Transaction) -> None:
        if not tx.execute(_UPSERT, {**receipt, "now": at}):
            raise HostedRoomError(
                "expected the run and session that this execution of the task is bound to, found others;"
                " read remote_run_receipt and use that run"
            )

    handle.write(body)


@operation(HostedRoomError)
def list_remote_run_receipts(
    db: Location, *, room_id: object = None, target_profile: object = None, session_id: object = None
) -> list[RemoteRunReceipt]:
    """Return the receipts, or those of a room, profile or session, in the order in which the runs were made.

    Raises HostedRoomError.
    """
    wanted: dict[str, Value] = {
        **({} if room_id is None else {"room_id": parse_room_id(room_id)}),
        **({} if target_profile is None else {"target_profile": parse_profile(target_profile)}),
        **({} if session_id is None else {"session_id": parse_link_text(session_id, "session_id")}),
    }
    statement = f"{_SELECT} WHERE {sql(given(*wanted))} {_ORDERED}"
    return [cast("RemoteRunReceipt", row) for row in opened(db).read(lambda tx: tx.execute(statement, wanted))]


@operation(HostedRoomError)
def remote_run_receipt(db: Location, *, record: Mapping[str, object]) -> RemoteRunReceipt | None:
    """Return the receipt of one execution of a task, or None; the record has the nine fields that name it.

    Raises HostedRoomError.
    """
    key = parse_run(record)
    rows = opened(db).read(lambda tx: tx.execute(_ONE, key))
    return cast("RemoteRunReceipt", rows[0]) if rows else None
