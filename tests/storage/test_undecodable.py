"""Text that is not UTF-8: one stray byte in one row stops nobody from reading, and changing, all the others."""

import pytest

import storage
from tests.storage.support import INSERT, SELECT, add, grants

pytestmark = pytest.mark.engines("sqlite", "memory")

BROKEN = "INSERT INTO notes VALUES (CAST(x'62ff63' AS TEXT), 1)"
UPDATE = 'UPDATE notes SET rank = coalesce(rank, 0) + 1 RETURNING "grant", rank'
ROWS: list[storage.Row] = [{"grant": "a", "rank": None}, {"grant": "b\udcffc", "rank": 1}]


@pytest.fixture
def broken(notes: storage.Database) -> storage.Database:
    """Notes of which one has a key that is not UTF-8; no text of it has been read yet."""
    notes.write(lambda tx: (tx.execute(INSERT, add("a")), tx.execute(BROKEN)))
    return notes


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_listing_shows_stray_bytes_as_lone_surrogates(broken: storage.Database, kind: str) -> None:
    """Every row arrives, the first time and the next, whole and in its order, inside a read and inside a write."""
    run = broken.read if kind == "read" else broken.write
    for _ in range(2):
        assert run(lambda tx: tx.execute(SELECT)) == ROWS
    assert ROWS[1]["grant"] == b"b\xffc".decode("utf-8", "surrogateescape")
    assert run(lambda tx: tx.execute("SELECT 'é' || x'00' || '😀' AS a")) == [{"a": "é\0😀"}]


def test_a_row_that_was_selected_can_be_written(broken: storage.Database) -> None:
    """In one transaction a row is read, then changed and returned; the change happens once."""

    def body(tx: storage.Transaction) -> list[storage.Row]:
        tx.execute(INSERT, add("z"))
        tx.execute("SELECT * FROM notes WHERE rank = 1")
        return tx.execute(UPDATE + " /* after a look */")

    returned = broken.write(body)
    assert sorted(row["rank"] for row in returned if isinstance(row["rank"], int)) == [1, 1, 2]
    assert broken.read(lambda tx: tx.execute(SELECT))[1] == {"grant": "b\udcffc", "rank": 2}


def test_a_write_that_meets_it_first_is_not_run_twice(broken: storage.Database) -> None:
    """The transaction stores nothing, even if its body swallows the error; repeated, it works."""

    def swallowing(tx: storage.Transaction) -> None:
        with pytest.raises(storage.StorageError, match="not UTF-8"):
            tx.execute(UPDATE)

    with pytest.raises(storage.StorageError, match="rolled back"):
        broken.write(swallowing)
    assert broken.read(lambda tx: tx.execute(SELECT)) == ROWS
    returned = broken.write(lambda tx: tx.execute(UPDATE))
    assert {(row["grant"], row["rank"]) for row in returned} == {("a", 1), ("b\udcffc", 2)}


def test_a_write_that_meets_it_first_can_be_undone_and_repeated(broken: storage.Database) -> None:
    """To a mark set before it the write is undone, so that the same transaction may run it again."""

    def body(tx: storage.Transaction) -> list[storage.Row]:
        mark = tx.mark()
        with pytest.raises(storage.StorageError, match="not UTF-8"):
            tx.execute(UPDATE)
        tx.undo(mark)
        assert tx.changes == 0
        return tx.execute(UPDATE)

    assert len(broken.write(body)) == 2
    assert [row["rank"] for row in broken.read(lambda tx: tx.execute(SELECT))] == [1, 2]


def test_other_failures_are_not_taken_for_it(broken: storage.Database) -> None:
    """A statement that fails for another reason fails as ever, before and after the connection tolerates."""
    for _ in range(2):
        with pytest.raises(storage.StorageError, match="refused the statement"):
            broken.read(lambda tx: tx.execute("SELECT 'Could not decode to UTF-8' FROM missing"))
        assert len(grants(broken)) == 2
