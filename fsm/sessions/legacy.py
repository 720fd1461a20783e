"""The admissions of an older gateway, taken over once from a snapshot of its file, which stays as it is."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from fsm.errors import RuntimeStoreError
from fsm.lifecycle import State
from fsm.lifecycle.terms import predicate
from fsm.lifecycles.admission_states import IMPORTED, STARTED, UNKNOWN
from fsm.lifecycles.limits import MAX_IMPORTED_GENERATION, MAX_RUNTIME_JSON_BYTES
from fsm.lifecycles.session_authorities import CONFLICT, EPOCH, NOT_FOUND
from fsm.machine.standing import require
from fsm.runtime.keys import LEGACY_IMPORT_KEY, content_digest
from fsm.runtime.lineage import advance_generation, chain_from
from fsm.runtime.machines import ADMISSION_MACHINE
from fsm.runtime.meta import keep_first, kept
from fsm.runtime.parse import Location, call, opened_at, parse_epoch, parse_object, parse_text, refusing
from fsm.sessions.admitting import INTENTS
from fsm.sessions.changes import hold, standing
from fsm.sessions.payloads import parse_counter
from storage import (
    DatabaseUnavailableError,
    Row,
    StorageError,
    Transaction,
    Value,
    canonical_json,
    choice,
    decode_json,
    read_snapshot,
    text,
)

__all__ = ["import_legacy_session_admissions"]

_ADMISSIONS: Final = ("admission_id", "target_session_id", "root", "lineage", "payload", "status", "outcome")
_SAME_AS: Final = {"interrupt": "redirect"}
"""What an older gateway called an intent."""
_STATES: Final = {state.name: state for state in IMPORTED}

_invalid = refusing("source_path")


@frozen
class _Admission:
    """One admission of the snapshot; its generation is None where it has none yet."""

    admission_id: str
    session_id: str
    payload_json: str
    intent: str
    state: str
    generation: int | None


@frozen
class _Snapshot:
    """What the file holds: admissions in the order of their queue, generations by the roots of their sessions."""

    fingerprint: str
    admissions: tuple[_Admission, ...]
    generations: tuple[tuple[str, int], ...]


@call
def import_legacy_session_admissions(
    db: Location, *, epoch: object, source_path: object, principal_id: object, writers_drained: object
) -> int:
    """Take over the admissions that an older gateway kept in a file of its own, and return how many; once.

    `writers_drained` must be True: the caller has made sure that nobody writes to the file. It is only read, and
    nothing is left beside it. What was started there is unknown here; every session must have been created before, and
    goes on from the generation that the file knows. `principal_id` is whose admissions they become. An exact retry
    returns 0.

    Raises RuntimeStoreError: invalid_params, also for a file that is no such database, a row that does not decode or
    that is in no declared state; not_found where there is no such file or session; stale_epoch; admission_conflict
    where another file, or another state of it, was taken over already; storage_unavailable where it cannot be read.
    Nothing is taken over then.
    """
    if writers_drained is not True:
        raise refusing("writers_drained")(
            "writers_drained: expected True; stop whoever writes to the file, then say so with True"
        )
    principal, path = parse_text(principal_id, "principal_id"), _path(source_path)
    parsed_epoch = parse_epoch(epoch)
    snapshot = _read(path)
    handle, now = opened_at(db)
    marker = _encoded(
        {
            "source": path,
            "fingerprint": snapshot.fingerprint,
            "imported_id_count": len(snapshot.admissions),
            "principal_id": principal,
        }
    )
    shared: Row = {"epoch": parsed_epoch, "principal_id": principal}

    def take_over(tx: Transaction) -> int:
        require(tx, EPOCH, epoch=parsed_epoch)
        if not keep_first(tx, LEGACY_IMPORT_KEY, marker):
            return _repeated(tx, marker)
        for root, generation in snapshot.generations:
            advance_generation(tx, hold(tx, chain_from, root)[-1], generation)
        for admission in snapshot.admissions:
            _import(tx, admission, now, shared)
        return len(snapshot.admissions)

    return handle.write(take_over)


def _repeated(tx: Transaction, marker: str) -> int:
    if kept(tx, LEGACY_IMPORT_KEY) != marker:
        raise CONFLICT.error("expected the snapshot that was taken over, found another; one is taken over, and once")
    return 0


def _import(tx: Transaction, admission: _Admission, now: float, shared: Mapping[str, Value]) -> None:
    chain = hold(tx, chain_from, admission.session_id)
    target, generation = chain[-1], admission.generation
    if generation is None and admission.state == UNKNOWN.name:
        generation = int(standing(tx, target)["runtime_generation"] or 0) + 1
    ADMISSION_MACHINE.fire(
        tx,
        "import",
        now=now,
        **shared,
        admission_id=admission.admission_id,
        request_id=admission.admission_id,
        session_id=target,
        lineage_json=json.dumps(chain, ensure_ascii=False),
        payload_json=admission.payload_json,
        payload_digest=content_digest(target, admission.payload_json, admission.intent),
        intent=admission.intent,
        state=admission.state,
        generation=generation,
    )


# --- the file


def _path(value: object) -> str:
    try:
        given = os.fspath(value) if isinstance(value, os.PathLike) else value
    except TypeError:
        given = None
    path = os.path.realpath(text(given, label="source_path", error=_invalid))
    text(path, label="source_path", error=_invalid)
    try:
        mode = Path(path).stat().st_mode
    except PermissionError as error:
        raise _unreadable(type(error).__name__) from error
    except OSError as error:
        raise NOT_FOUND.error(f"source_path: expected a file, found none ({error.strerror}); mend the path") from error
    if not stat.S_ISREG(mode):
        raise _invalid("source_path: expected a file, found something else; pass the path of a database")
    return path


def _unreadable(reason: str) -> RuntimeStoreError:
    said = f"source_path: the file cannot be read ({reason}); see that it may be, and that nobody holds it locked"
    return RuntimeStoreError("storage_unavailable", field="source_path", detail=said)


def _read(path: str) -> _Snapshot:
    try:
        admissions, executions = read_snapshot(path, _rows)
    except DatabaseUnavailableError as error:
        raise _unreadable(type(error.__cause__ or error).__name__) from error
    except StorageError as error:
        raise _invalid("source_path: expected the database of an older gateway, found another file; mend it") from error
    return _Snapshot(
        _fingerprint(admissions, executions),
        tuple(_parsed(row) for row in admissions),
        tuple(_execution(row) for row in executions),
    )


def _rows(tx: Transaction) -> tuple[list[Row], list[Row]]:
    admissions = tx.execute("SELECT * FROM admissions ORDER BY seq")
    executions = tx.execute("SELECT * FROM executions ORDER BY root") if tx.table_exists("executions") else []
    return admissions, executions


def _fingerprint(admissions: list[Row], executions: list[Row]) -> str:
    """Return the SHA-256 of {"executions", "rows"} as canonical JSON, fed row by row: together they may be many."""
    digest = hashlib.sha256()
    for part in _spelled(admissions, executions):
        digest.update(part.encode())
    return digest.hexdigest()


def _spelled(admissions: list[Row], executions: list[Row]) -> Iterator[str]:
    for opening, rows in (('{"executions":[', executions), ('],"rows":[', admissions)):
        yield opening
        for count, row in enumerate(rows):
            yield f"{',' if count else ''}{_encoded(row)}"
    yield "]}"


def _encoded(value: Mapping[str, Any]) -> str:
    return canonical_json(
        value, label="source_path", error=_invalid, maximum_bytes=MAX_RUNTIME_JSON_BYTES, ascii_only=False
    )


# --- its rows


def _parsed(row: Row) -> _Admission:
    if missing := [name for name in (*_ADMISSIONS, "generation") if name not in row]:
        raise _invalid(f"source_path: expected the columns {', '.join(missing)}; mend the table of admissions")
    parse_text(row["root"], "root")
    session = parse_text(row["target_session_id"], "target_session_id")
    lineage = decode_json(row["lineage"], label="lineage", error=refusing("lineage"))
    if not isinstance(lineage, list) or session not in lineage:
        raise refusing("lineage")("lineage: expected a list that names the session, found another; mend the row")
    payload = decode_json(row["payload"], label="payload", error=refusing("payload"))
    encoded = parse_object(payload, "payload")
    generation = None if row["generation"] is None else _generation(row)
    return _Admission(
        parse_text(row["admission_id"], "admission_id"), session, encoded, _intent(payload), _state(row), generation
    )


def _execution(row: Row) -> tuple[str, int]:
    if not {"root", "generation"} <= row.keys():
        raise _invalid("source_path: expected executions to have a root and a generation; mend their table")
    return parse_text(row["root"], "root"), _generation(row)


def _generation(row: Row) -> int:
    # The session goes on from here: each turn needs a higher one, and a column holds 64 bits.
    return parse_counter(row["generation"], "generation", maximum=MAX_IMPORTED_GENERATION)


def _intent(payload: Mapping[str, Any]) -> str:
    named = payload.get("intent", INTENTS[0])
    known = _SAME_AS.get(named, named) if isinstance(named, str) else named
    return choice(known, label="intent", error=refusing("intent"), options=INTENTS)


def _state(row: Row) -> str:
    """Return the state in which the row is taken over, as the declaration tells states apart."""
    status = UNKNOWN.name if row["status"] == STARTED.name else row["status"]
    # What it lacks of an owner's claim, the import gives to an unknown one.
    claimed = 0 if row["generation"] is None and status == UNKNOWN.name else row["generation"]
    judged: Row = {"status": status, "outcome": row["outcome"], "owner_epoch": 0, "generation": claimed}
    state = _STATES.get(ADMISSION_MACHINE.state_of(judged, now=0.0))
    if state is None or not _holds(state, judged):
        raise refusing("status")(
            "status: expected status, outcome and generation of a declared state, found others; mend the row"
        )
    return state.name


def _holds(state: State, row: Row) -> bool:
    return predicate(state.requires)(row, {})
