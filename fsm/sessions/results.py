"""What a mutation of a session answers with."""

from typing import Any, TypedDict

__all__ = ["MutationView", "Snapshot"]


class Snapshot(TypedDict):
    """The session in which a conversation goes on, with the generation and the revision that it has."""

    target: str
    generation: int
    revision: int


class MutationView(TypedDict, total=False):
    """What became of a mutation; `revision` and `execution_generation` are what the named session has after it.

    The further fields are each operation's own. Once a session is deleted, a retry answers without `title`, `summary`
    and `target_message`. Of a call with `prepare_only` there is `snapshot` alone.
    """

    session_id: str
    revision: int
    execution_generation: int
    operation: str
    title: str
    archived: bool
    model: str
    provider: str
    child_session_id: str
    copied_count: int
    kept_count: int
    summary: str
    rewound_count: int
    target_message: dict[str, Any]
    new_head_id: int | None
    deleted_ids: list[str]
    imported_ids: list[str]
    skipped_ids: list[str]
    snapshot: Snapshot
