"""The payload of each mutation, checked and normalised before a transaction begins."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fsm.lifecycles.limits import MAX_IMPORTED_SESSIONS
from fsm.runtime.messages import parse_message
from fsm.runtime.parse import parse_choice, parse_flag, parse_optional_text, parse_text, refusing
from fsm.sessions.results import Snapshot
from storage import instance, integer, record, text
from storage.validate import INTEGER_MAXIMUM

__all__ = ["PAYLOADS", "parse_counter", "parse_operation", "parse_prepared"]

Fields = dict[str, Any]


def parse_operation(value: object) -> str:
    """Return the name of a mutation; raises RuntimeStoreError(invalid_params), as all of these."""
    return parse_choice(value, "operation", tuple(PAYLOADS))


def parse_counter(value: object, field: str, *, minimum: int = 0, maximum: int = INTEGER_MAXIMUM) -> int:
    """Return an integer within these bounds, by default of 64 bits and not negative."""
    return integer(value, label=field, error=refusing(field), minimum=minimum, maximum=maximum)


def parse_prepared(value: object) -> Snapshot | None:
    """Return None, or the snapshot that `prepare_only` answered."""
    if value is None:
        return None
    fields = record(value, label="prepared", error=refusing("prepared"), required=("target", "generation", "revision"))
    return {
        "target": parse_text(fields["target"], "prepared"),
        "generation": parse_counter(fields["generation"], "prepared"),
        "revision": parse_counter(fields["revision"], "prepared"),
    }


def _fields(payload: object, *required: str, optional: tuple[str, ...] = ()) -> Fields:
    return record(payload, label="payload", error=refusing("payload"), required=required, optional=optional)


def _nothing(payload: object) -> Fields:
    return _fields(payload)


def _rename(payload: object) -> Fields:
    return {"title": parse_text(_fields(payload, "title")["title"], "title")}


def _archive(payload: object) -> Fields:
    return {"archived": parse_flag(_fields(payload, "archived")["archived"], "archived")}


def _model(payload: object) -> Fields:
    fields = _fields(payload, "model", optional=("provider",))
    provider = parse_optional_text(fields.get("provider"), "provider")
    return {"model": parse_text(fields["model"], "model"), **({} if provider is None else {"provider": provider})}


def _rewind(payload: object) -> Fields:
    target = _fields(payload, "target_message_id")["target_message_id"]
    return {"target_message_id": parse_counter(target, "target_message_id", minimum=1)}


def _branch(payload: object) -> Fields:
    fields = _fields(payload, optional=("title", "through_message_id"))
    through = fields.get("through_message_id")
    return {
        "title": parse_optional_text(fields.get("title"), "title"),
        "through": None if through is None else parse_counter(through, "through_message_id", minimum=1),
    }


def _compress(payload: object) -> Fields:
    fields = _fields(payload, "summary", optional=("keep_last",))
    text(fields["summary"], label="summary", error=refusing("summary"))
    summary = {"role": "system", "content": fields["summary"], "_compressed_summary": True}
    return {
        "summary": parse_message(summary),
        "keep_last": parse_counter(fields.get("keep_last", 0), "keep_last"),
    }


def _import(payload: object) -> Fields:
    sessions = instance(_fields(payload, "sessions")["sessions"], list, label="sessions", error=refusing("sessions"))
    if not 1 <= len(sessions) <= MAX_IMPORTED_SESSIONS:
        raise refusing("sessions")(
            f"sessions: expected 1 to {MAX_IMPORTED_SESSIONS}, found {len(sessions)}; import them in several calls"
        )
    parsed = [_imported(each) for each in sessions]
    if len({each["id"] for each in parsed}) < len(parsed):
        raise refusing("sessions")("sessions: expected each id once, found one twice; leave one of them out")
    return {"sessions": parsed}


def _imported(entry: object) -> Fields:
    fields = record(entry, label="sessions", error=refusing("sessions"), required=("session", "messages"))
    session = record(
        fields["session"],
        label="session",
        error=refusing("session"),
        required=("id",),
        optional=("source", "title", "parent_session_id"),
    )
    messages = instance(fields["messages"], list, label="messages", error=refusing("messages"))
    return {
        "id": parse_text(session["id"], "id"),
        "source": parse_optional_text(session.get("source"), "source"),
        "title": parse_optional_text(session.get("title"), "title"),
        "parent_session_id": parse_optional_text(session.get("parent_session_id"), "parent_session_id"),
        "messages": [parse_message(each) for each in messages],
    }


PAYLOADS: Final[Mapping[str, Callable[[object], Fields]]] = {
    "rename": _rename,
    "archive": _archive,
    "model": _model,
    "reset": _nothing,
    "rewind": _rewind,
    "branch": _branch,
    "compress": _compress,
    "delete": _nothing,
    "import": _import,
}
"""What each operation takes; each answers its fields, or raises RuntimeStoreError(invalid_params)."""
