"""Usage: what a session's turns and its auxiliary calls have cost."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from fsm.lifecycle.terms import literal, quoted
from fsm.lifecycles.limits import MAX_USAGE_COST, MAX_USAGE_COUNT, MAX_USAGE_TEXT_CHARS
from fsm.lifecycles.runtime_tables import COUNTERS, MODEL_USAGE, SESSIONS, UNSET_SOURCES
from fsm.machine import Record
from fsm.runtime.lineage import ancestors_of
from fsm.runtime.parse import parse_flag, refusing
from fsm.runtime.surfaces import created_surface
from storage import Row, Value, integer, number, record, text
from storage.validate import INTEGER_MAXIMUM

__all__ = ["add_auxiliary_usage", "add_main_usage", "parse_auxiliary_usage", "parse_main_usage"]

COSTS: Final = ("estimated_cost_usd", "actual_cost_usd")
BILLING: Final = ("billing_provider", "billing_base_url")
OF_MAIN: Final = (*COUNTERS, *BILLING, "billing_mode", "cost_status", "cost_source", "pricing_version", "task")
OF_AUXILIARY: Final = (*(name for name in COUNTERS if name != "actual_cost_usd"), *BILLING)

_COUNTED: Final = ", ".join(map(quoted, COUNTERS))
_OF_SESSION = f"SELECT {_COUNTED} FROM {quoted(SESSIONS.name)} WHERE id = :session_id"
_COUNT_SESSION = f"""
    UPDATE {quoted(SESSIONS.name)}
    SET {", ".join(f"{quoted(name)} = :{name}" for name in COUNTERS)}, model = COALESCE(model, :model)
    WHERE id = :session_id
"""
_OF_MODEL = f"""
    SELECT {_COUNTED} FROM {quoted(MODEL_USAGE.name)}
    WHERE session_id = :session_id AND task = :task AND model = :model
"""
_COUNT_MODEL = f"""
    INSERT INTO {quoted(MODEL_USAGE.name)} (session_id, task, model, {_COUNTED})
    VALUES (:session_id, :task, :model, {", ".join(f":{name}" for name in COUNTERS)})
    ON CONFLICT (session_id, task, model)
    DO UPDATE SET {", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in COUNTERS)}
"""
_SOURCE = f"SELECT created_source FROM {quoted(SESSIONS.name)} WHERE id = :id"
_FILL_SOURCE = f"""
    UPDATE {quoted(SESSIONS.name)} SET created_source = :source
    WHERE id = :id AND COALESCE(created_source, '') IN ({", ".join(map(literal, UNSET_SOURCES))})
"""


@frozen
class Usage:
    """What was used, by counter, and the further fields that were given."""

    counters: Mapping[str, int | float | None]
    fields: Mapping[str, Any]


def parse_main_usage(payload: Mapping[str, Any]) -> Usage:
    """Return the usage of a session's own turns; raises RuntimeStoreError(invalid_params)."""
    return _parse(payload, optional=(*OF_MAIN, "model", "source", "absolute"))


def parse_auxiliary_usage(payload: Mapping[str, Any]) -> Usage:
    """Return the usage of a task beside the turns; raises RuntimeStoreError(invalid_params)."""
    usage = _parse({"api_call_count": 1, **payload}, required=("task",), optional=(*OF_AUXILIARY, "model"))
    if not usage.fields["task"]:
        raise refusing("task")("task: expected the name of a task, found none; pass one")
    return usage


def _parse(payload: Mapping[str, Any], *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> Usage:
    fields = record(payload, label="payload", error=refusing("payload"), required=required, optional=optional)
    parsed = {name: _PARSERS.get(name, _parse_text)(value, name) for name, value in fields.items()}
    counters = {name: value for name, value in parsed.items() if name in COUNTERS}
    return Usage(counters, {name: value for name, value in parsed.items() if name not in COUNTERS})


def _parse_count(value: object, field: str) -> int:
    return integer(value, label=field, error=refusing(field), minimum=0, maximum=MAX_USAGE_COUNT)


def _parse_cost(value: object, field: str) -> float | None:
    if value is None:
        return None
    dollars = number(value, label=field, error=refusing(field))
    if not 0 <= dollars <= MAX_USAGE_COST:
        raise refusing(field)(f"{field}: expected 0 to {MAX_USAGE_COST:.0e} dollars, found another; pass one within")
    return dollars


def _parse_text(value: object, field: str) -> str | None:
    if value is None:
        return None
    return text(value, label=field, error=refusing(field), maximum_characters=MAX_USAGE_TEXT_CHARS, blank=True)


_PARSERS: Final[Mapping[str, Callable[[object, str], Any]]] = {
    **dict.fromkeys(COUNTERS, _parse_count),
    **dict.fromkeys(COSTS, _parse_cost),
    "absolute": parse_flag,
}


def add_main_usage(call: Record, usage: Usage) -> dict[str, Any]:
    """Add to the session's counters, or set those given; fill in the model and the source that are not known yet."""
    session_id = str(call.values["session_id"])
    key: Row = {"session_id": session_id}
    before = call.tx.execute(_OF_SESSION, key)[0]
    counted = _counted(before, usage.counters, absolute=usage.fields.get("absolute", False))
    call.tx.execute(_COUNT_SESSION, {**key, **counted, "model": usage.fields.get("model") or None})
    surface = created_surface(usage.fields.get("source"))
    if surface is not None:
        _fill_source(call, session_id, surface)
    return {"value": None}


def _fill_source(call: Record, session_id: str, surface: str) -> None:
    call.tx.execute(_FILL_SOURCE, {"id": session_id, "source": surface})
    # What the session continues was created where the session itself says, which may be elsewhere than this worker.
    stored = call.tx.execute(_SOURCE, {"id": session_id})[0]["created_source"]
    for ancestor in ancestors_of(call.tx, session_id):
        call.tx.execute(_FILL_SOURCE, {"id": ancestor, "source": stored})


def add_auxiliary_usage(call: Record, usage: Usage) -> dict[str, Any]:
    """Add to what the session's calls of this task and model have used."""
    key: Row = {
        "session_id": call.values["session_id"],
        "task": usage.fields["task"],
        "model": usage.fields.get("model") or "",
    }
    rows = call.tx.execute(_OF_MODEL, key)
    call.tx.execute(_COUNT_MODEL, {**key, **_counted(rows[0] if rows else {}, usage.counters)})
    return {"value": None}


def _counted(before: Mapping[str, Value], used: Mapping[str, int | float | None], *, absolute: bool = False) -> Row:
    if absolute:
        return {name: before[name] if used.get(name) is None else used[name] for name in COUNTERS}
    return {name: _sum(name, before.get(name), used.get(name)) for name in COUNTERS}


def _sum(name: str, before: Value, used: float | None) -> Value:
    """Add in Python, where a sum beyond 64 bits is an integer still; the session's row is locked meanwhile."""
    if isinstance(before, str):
        raise refusing(name, "storage_unavailable")(f"{name}: expected a stored number, found a text; mend the row")
    if used is None:
        return before if before is not None or name in COSTS else 0
    total = (before or 0) + used
    if name not in COSTS and total > INTEGER_MAXIMUM:
        raise refusing(name)(f"{name}: expected a sum within 64 bits, found a greater one; set it with absolute")
    return total
