"""What session and worker calls are handed, checked and normalised before a transaction begins."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from fsm.calling import operation
from fsm.errors import RuntimeReason, RuntimeStoreError
from fsm.lifecycles.limits import MAX_RUNTIME_JSON_BYTES, MAX_RUNTIME_TEXT_CHARS
from fsm.schema import RUNTIME_SCHEMA
from storage import Database, Transaction, canonical_json, choice, flag, instance, integer, reading, resolve, text
from storage.validate import INTEGER_MINIMUM, ErrorOf

__all__ = [
    "Location",
    "call",
    "opened",
    "opened_at",
    "parse_choice",
    "parse_epoch",
    "parse_flag",
    "parse_generation",
    "parse_hook",
    "parse_new_id",
    "parse_object",
    "parse_optional_text",
    "parse_text",
    "parse_transaction",
    "refusing",
]

Location: TypeAlias = Database | str | os.PathLike[str]
Hook = TypeVar("Hook", bound=Callable[..., object])


def refusing(field: str, reason: RuntimeReason = "invalid_params") -> ErrorOf:
    """Return what makes the error of a field that cannot be what it is."""
    return lambda message: RuntimeStoreError(reason, field=field, detail=message)


call = operation(refusing("arguments"))
"""The decorator of every public function here: a call with the wrong arguments is invalid_params."""


def opened(db: Location) -> Database:
    """Return the handle, with the runtime's tables in place; raises RuntimeStoreError, StorageError."""
    handle = resolve(db, error=refusing("db"))
    handle.require(RUNTIME_SCHEMA)
    return handle


def opened_at(db: Location) -> tuple[Database, float]:
    """Return the handle, and one reading of its clock in seconds."""
    handle = opened(db)
    return handle, reading(handle.clock, label="the handle's clock", error=refusing("clock"))


def parse_transaction(tx: object) -> tuple[Transaction, float]:
    """Return the open transaction, and one reading of its handle's clock in seconds."""
    parsed: Transaction = instance(tx, Transaction, label="tx", error=refusing("tx"))  # type: ignore[type-abstract]  # isinstance takes it
    return parsed, reading(parsed.database.clock, label="the handle's clock", error=refusing("clock"))


def parse_text(value: object, field: str) -> str:
    """Return a text of 1 to 1024 code points as it is."""
    return text(value, label=field, error=refusing(field), maximum_characters=MAX_RUNTIME_TEXT_CHARS)


def parse_optional_text(value: object, field: str) -> str | None:
    """Return None, or a text of 1 to 1024 code points as it is."""
    return None if value is None else parse_text(value, field)


def parse_choice(value: object, field: str, options: tuple[str, ...]) -> str:
    """Return one of the options."""
    return choice(value, label=field, error=refusing(field), options=options)


def parse_flag(value: object, field: str) -> bool:
    """Return a bool; nothing else counts as one."""
    return flag(value, label=field, error=refusing(field))


def parse_new_id(handle: Database) -> str:
    """Return a new id of the handle's own making."""
    return parse_text(handle.new_id(), "new_id")


def parse_object(value: object, field: str, *, maximum_bytes: int = MAX_RUNTIME_JSON_BYTES) -> str:
    """Return a JSON object as canonical JSON, which is not escaped to ASCII; the limit is in UTF-8 bytes."""
    fields: dict[str, Any] = instance(value, dict, label=field, error=refusing(field))
    return canonical_json(fields, label=field, error=refusing(field), maximum_bytes=maximum_bytes, ascii_only=False)


def parse_epoch(value: object) -> int:
    """Return the epoch; what is no integer of 64 bits cannot be the current one, and is stale_epoch."""
    return _counted(value, "epoch", "stale_epoch")


def parse_generation(value: object) -> int:
    """Return the generation; what is no integer of 64 bits cannot be the current one, and is stale_generation."""
    return _counted(value, "generation", "stale_generation")


def _counted(value: object, field: str, reason: RuntimeReason) -> int:
    def refused(_: str) -> RuntimeStoreError:
        said = f"{field}: expected an integer, found a {type(value).__name__}; pass the one read"
        return RuntimeStoreError(reason, field=field, detail=said)

    return integer(value, label=field, error=refused, minimum=INTEGER_MINIMUM)


def parse_hook(value: Hook | None, field: str) -> Mapping[str, Hook]:
    """Return the hook under its name, as the context of a firing; nothing where none was handed over."""
    if value is None:
        return {}
    if not callable(value):
        raise RuntimeStoreError(
            "invalid_params", field=field, detail=f"{field}: expected a function or None; pass one of these"
        )
    return {field: value}
