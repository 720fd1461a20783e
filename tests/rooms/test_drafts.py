"""A gateway's drafts open in place: each older shape, and any combination, becomes what a fresh database is."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import storage
from fsm import UnsupportedDatabaseError, rooms
from fsm.schema import GATEWAY_SCHEMA
from tests.older_rooms import ADDED, KEYS, TABLES, Draft, expected_rows, make_draft, rows_of
from tests.rooms.support import RETENTION, Gateway, check_books
from tests.world import ManualClock

OPTIONAL = tuple(table for table in TABLES if table not in {"hosted_rooms", "hosted_room_events"})
RUNS = "hosted_room_remote_runs"


def open_draft(path: Path) -> None:
    """Bring a draft to the present shape, and let go of it."""
    handle = storage.open_database(path, synchronous="normal")
    try:
        handle.require(GATEWAY_SCHEMA)
    finally:
        handle.close()


def shapes_of(path: Path) -> dict[str, Any]:
    """Return what SQLite says of each table: columns in order, keys, references, and the text that made it."""
    with closing(sqlite3.connect(path)) as connection:

        def ask(sql: str, name: str) -> list[tuple[Any, ...]]:
            return connection.execute(sql, (name,)).fetchall()

        return {
            table: {
                "columns": [
                    (name, kind.upper(), default, key)
                    for _, name, kind, _, default, key, _ in ask("select * from pragma_table_xinfo(?)", table)
                ],
                "references": [row[2:5] for row in ask("select * from pragma_foreign_key_list(?)", table)],
                "keys": sorted(
                    (unique, [part[2] for part in ask("select * from pragma_index_info(?)", name)])
                    for _, name, unique, _, _ in ask("select * from pragma_index_list(?)", table)
                ),
            }
            for table in TABLES
        }


def text_of(path: Path, table: str) -> str:
    """Return the statement by which a table was made."""
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("select sql from sqlite_master where name = ?", (table,)).fetchone()[0])


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh database."""
    path = tmp_path_factory.mktemp("fresh") / "state.db"
    open_draft(path)
    return path


def remade(draft: Draft) -> set[str]:
    """Return the tables that the draft has in an older shape, or not at all."""
    lacking = {table for table, _ in draft.lacks}
    return (lacking | set(draft.missing)) | ({RUNS} if draft.key != "whole" else set())


def check_migrated(path: Path, draft: Draft, fresh: Path) -> None:
    """A migrated draft has every row and the shape of a fresh database; what was made anew has its very text."""
    assert rows_of(path) == expected_rows(draft)
    assert shapes_of(path) == shapes_of(fresh)
    for table in remade(draft):
        assert text_of(path, table) == text_of(fresh, table)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert connection.execute("pragma foreign_key_check").fetchall() == []


NONE: frozenset[Any] = frozenset()
OLDER: dict[str, Draft] = {
    "the present shape": Draft(NONE, NONE, "whole"),
    "all at once": Draft(),
    "all at once, without the other tables": Draft(missing=frozenset(OPTIONAL)),
    **{f"{table} without {column}": Draft(frozenset({(table, column)}), NONE, "whole") for table, column in ADDED},
    **{f"no {table}": Draft(NONE, frozenset({table}), "whole") for table in OPTIONAL},
    **{f"receipts by the key {key}": Draft(NONE, NONE, key) for key in KEYS},
    "no index": Draft(NONE, NONE, "whole", indexed=False),
}


@pytest.mark.parametrize("case", OLDER)
def test_an_older_shape_becomes_the_present_one(tmp_path: Path, fresh: Path, case: str) -> None:
    """Each older shape keeps every row and gets the shape of a fresh database; a second opening writes nothing."""
    path = tmp_path / "state.db"
    make_draft(path, OLDER[case])
    open_draft(path)
    check_migrated(path, OLDER[case], fresh)
    before = path.read_bytes()
    open_draft(path)
    assert path.read_bytes() == before


drafts = st.builds(
    Draft,
    lacks=st.sets(st.sampled_from(sorted(ADDED))).map(frozenset),
    missing=st.sets(st.sampled_from(OPTIONAL)).map(frozenset),
    key=st.sampled_from(sorted(KEYS)),
    indexed=st.booleans(),
)


@settings(deadline=None, max_examples=60, derandomize=True, database=None)
@given(draft=drafts)
def test_any_combination_becomes_the_present_shape(fresh: Path, draft: Draft) -> None:
    """Whatever a draft lacks, and whichever key its receipts had, no row is lost and the shape is a fresh one's."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state.db"
        make_draft(path, draft)
        open_draft(path)
        check_migrated(path, draft, fresh)


def test_of_receipts_that_the_key_does_not_tell_apart_the_first_stays(tmp_path: Path) -> None:
    """Without a gateway in the receipts two of them name one execution: the one that was stored first is kept."""
    path = tmp_path / "state.db"
    make_draft(path, Draft(frozenset({(RUNS, "authority_gateway_id")}), NONE, "none"))
    before = rows_of(path)[RUNS]
    open_draft(path)
    after = rows_of(path)[RUNS]
    assert (len(before), len(after)) == (12, 6)
    assert {row["run_id"].rpartition("-")[2] for row in after} == {"gw"}


def test_a_migrated_room_lives_on(tmp_path: Path) -> None:
    """A room of a draft can be adopted, its books are right, and a disbanded one's id is taken for ever."""
    path = tmp_path / "state.db"
    make_draft(path, Draft())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("delete from hosted_room_events where seq > 1")
        connection.execute("update hosted_rooms set next_seq = 2")
    clock = ManualClock()
    gateway = Gateway(storage.open_database(path, clock=clock), clock)
    view = gateway.create("lobby", name="é lobby", members=[{"id": "ann"}])
    assert (view["authority_gateway_id"], view["authority_epoch"]) == ("gw", 2)
    check_books(gateway, "lobby")
    assert gateway.retired() == {"closed": 5.0, "gone": 6.0, "older": 1.0}
    assert gateway.prune(clock.now + RETENTION) == 2
    with pytest.raises(rooms.RoomConflictError):
        gateway.create("closed")
    gateway.db.close()


UNKNOWN: dict[str, tuple[str, str]] = {
    "no name": ("alter table hosted_rooms drop column name", "hosted_rooms"),
    "no payload": ("alter table hosted_room_events drop column payload_json", "hosted_room_events"),
    "no run": ("alter table hosted_room_remote_runs drop column run_id", RUNS),
    "no grant": ('alter table hosted_room_links drop column "grant"', "hosted_room_links"),
    "a view": ("alter table hosted_room_revoked_grants rename to hosted_room_grants", "hosted_room_revoked_grants"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_any_other_shape_is_refused_and_left_as_it_was(tmp_path: Path, case: str) -> None:
    """A draft that differs in anything else is refused by the table's name, and stays as it was to the byte."""
    change, table = UNKNOWN[case]
    path = tmp_path / "state.db"
    make_draft(path, Draft())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        if case == "a view":
            connection.execute("create view hosted_room_revoked_grants as select 1 as scope_key")
    before = path.read_bytes()
    with pytest.raises(UnsupportedDatabaseError, match=f"table {table}:"):
        open_draft(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_text_that_is_not_utf_8_is_kept_and_counted(tmp_path: Path) -> None:
    """Damaged text of an older gateway does not keep its database from opening: its bytes are what they were."""
    path = tmp_path / "state.db"
    make_draft(path, Draft())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("delete from hosted_room_events where room_id = 'lobby' and seq > 1")
        connection.execute("update hosted_room_events set payload_json = cast(x'7bff7d' as text) where seq = 1")
    open_draft(path)
    size = len("e1" + "message.user" + '{"id":"legacy","kind":"system"}') + 3
    with closing(sqlite3.connect(path)) as connection:
        query = "select event_bytes from hosted_rooms where room_id = 'lobby'"
        assert connection.execute(query).fetchone() == (size,)
        stored = "select cast(payload_json as blob) from hosted_room_events where room_id = 'lobby'"
        assert connection.execute(stored).fetchone() == (b"{\xff}",)


def test_further_columns_of_a_gateway_are_kept(tmp_path: Path) -> None:
    """A gateway's own column on an older table is there afterwards, behind the declared ones, with its values."""
    path = tmp_path / "state.db"
    make_draft(path, Draft())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("alter table hosted_rooms add column colour text default 'red' check (colour <> 'grey')")
        connection.execute("update hosted_rooms set colour = 'blue' where room_id = 'lobby'")
        connection.execute("create index by_colour on hosted_rooms(colour)")
    open_draft(path)
    with closing(sqlite3.connect(path)) as connection:
        found = dict(connection.execute("select room_id, colour from hosted_rooms").fetchall())
        assert found == {"lobby": "blue", "attic": "red", "closed": "red", "gone": "red"}
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("update hosted_rooms set colour = 'grey'")
        names = connection.execute("select name from sqlite_master where tbl_name = 'hosted_rooms' and type = 'index'")
        assert ("by_colour",) in names.fetchall()
