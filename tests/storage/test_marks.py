"""Marks: a part of a transaction undone as if it had never been, while the transaction goes on."""

import pytest

import storage
from tests.storage.support import INSERT, SELECT, add, grants


def test_undoing_takes_back_the_rows_since_the_mark_and_no_others(notes: storage.Database) -> None:
    """What was written before the mark and after the undoing is committed; rows and tables between are not."""

    def body(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("before"))
        mark = tx.mark()
        tx.execute(INSERT, add("between"))
        tx.execute("UPDATE notes SET rank = 5")
        tx.execute("CREATE TABLE other (a TEXT)")
        tx.undo(mark)
        assert not tx.table_exists("other")
        tx.execute(INSERT, add("after"))

    notes.write(body)
    assert notes.read(lambda tx: tx.execute(SELECT)) == [add("after"), add("before")]


def test_undoing_drops_the_actions_registered_since(notes: storage.Database) -> None:
    """Of the actions, those of what is committed run, in their order."""
    seen: list[str] = []

    def body(tx: storage.Transaction) -> None:
        tx.after_commit(lambda: seen.append("before"))
        mark = tx.mark()
        tx.after_commit(lambda: seen.append("between"))
        tx.undo(mark)
        tx.after_commit(lambda: seen.append("after"))

    notes.write(body)
    assert seen == ["before", "after"]


def test_changes_goes_back_with_the_rows(notes: storage.Database) -> None:
    """After an undoing the count is what it was at the mark, and goes on from there."""

    def body(tx: storage.Transaction) -> list[int]:
        tx.execute(INSERT, add("a"))
        outer = tx.mark()
        tx.execute(INSERT, add("b"))
        inner = tx.mark()
        tx.execute("DELETE FROM notes")
        counts = [tx.changes]
        tx.undo(inner)
        counts.append(tx.changes)
        tx.undo(outer)
        counts.append(tx.changes)
        tx.execute(INSERT, add("c"))
        return [*counts, tx.changes]

    assert notes.write(body) == [4, 2, 1, 2]
    assert grants(notes) == ["a", "c"]


def test_marks_nest_and_an_outer_one_takes_the_inner_ones_along(notes: storage.Database) -> None:
    """Undoing an outer mark undoes what was done since the inner ones too, which are then used up."""

    def body(tx: storage.Transaction) -> None:
        outer = tx.mark()
        tx.execute(INSERT, add("a"))
        first = tx.mark()
        tx.execute(INSERT, add("b"))
        tx.undo(first)
        second = tx.mark()
        tx.execute(INSERT, add("c"))
        tx.undo(outer)
        for used in (first, second, outer):
            with pytest.raises(storage.StorageError, match="mark"):
                tx.undo(used)
        again = tx.mark()
        with pytest.raises(storage.StorageError, match="mark"):
            tx.undo(outer)
        tx.execute(INSERT, add("d"))
        assert again is not outer

    notes.write(body)
    assert grants(notes) == ["d"]


def test_undoing_to_a_mark_takes_back_the_doom_spoken_since(notes: storage.Database) -> None:
    """Half of something cannot be committed once that half is undone; a doom from before the mark stays."""

    def body(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("kept"))
        mark = tx.mark()
        tx.execute(INSERT, add("half"))
        tx.doom("half of it")
        tx.undo(mark)

    notes.write(body)
    assert grants(notes) == ["kept"]

    def doomed(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("more"))
        tx.doom("the first")
        mark = tx.mark()
        tx.doom("the second")
        tx.undo(mark)

    with pytest.raises(storage.StorageError, match="the first"):
        notes.write(doomed)
    assert grants(notes) == ["kept"]


def test_a_statement_that_fails_can_be_undone(notes: storage.Database) -> None:
    """A batch can leave one member out: its constraint error is undone to the mark set before it."""

    def body(tx: storage.Transaction) -> None:
        for name in ("a", "b", "a", "c"):
            mark = tx.mark()
            try:
                tx.execute('UPDATE notes SET rank = coalesce(rank, 0) + 1 WHERE "grant" <> :grant', {"grant": name})
                tx.execute(INSERT, add(name))
            except storage.ConstraintError:
                tx.undo(mark)

    notes.write(body)
    assert [row["rank"] for row in notes.read(lambda tx: tx.execute(SELECT))] == [2, 1, None]


@pytest.mark.parametrize("wrong", [None, 5, "storage_mark_0", object()], ids=lambda value: type(value).__name__)
def test_what_is_no_mark_is_refused(notes: storage.Database, wrong: object) -> None:
    """Only what mark() returned is a mark; the refusal undoes nothing."""

    def body(tx: storage.Transaction) -> None:
        tx.mark()
        tx.execute(INSERT, add("a"))
        with pytest.raises(storage.StorageError, match="mark"):
            tx.undo(wrong)

    notes.write(body)
    assert grants(notes) == ["a"]


def test_a_mark_of_another_or_ended_transaction_is_refused(notes: storage.Database) -> None:
    """A mark is worth nothing outside the transaction that made it, and an ended transaction makes none."""

    def body(tx: storage.Transaction) -> tuple[storage.Transaction, object]:
        return tx, tx.mark()

    ended, mark = notes.write(body)
    with pytest.raises(storage.StorageError, match="over"):
        ended.undo(mark)
    with pytest.raises(storage.StorageError, match="over"):
        ended.mark()

    def other(tx: storage.Transaction) -> None:
        tx.mark()
        tx.execute(INSERT, add("a"))
        with pytest.raises(storage.StorageError, match="mark"):
            tx.undo(mark)

    notes.write(other)
    assert grants(notes) == ["a"]


def test_marks_that_are_never_undone_need_no_care(notes: storage.Database) -> None:
    """They stand in the way of neither commit nor rollback, and a read may set them too."""

    def body(tx: storage.Transaction) -> None:
        for number in range(50):
            tx.mark()
            tx.execute(INSERT, add(str(number)))

    notes.write(body)
    assert len(grants(notes)) == 50

    def failing(tx: storage.Transaction) -> None:
        tx.mark()
        tx.execute("DELETE FROM notes")
        raise LookupError

    with pytest.raises(LookupError):
        notes.write(failing)
    notes.read(lambda tx: tx.undo(tx.mark()))
    assert len(grants(notes)) == 50


@pytest.mark.engines("sqlite", "memory")
def test_a_statement_that_rolls_back_by_itself_leaves_nothing_to_undo(notes: storage.Database) -> None:
    """After SQLite has ended the transaction its marks are gone, and that is said."""

    def body(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("a"))
        mark = tx.mark()
        with pytest.raises(storage.ConstraintError):
            tx.execute(INSERT.replace("INSERT", "INSERT OR ROLLBACK"), add("a"))
        with pytest.raises(storage.StorageError, match="over"):
            tx.undo(mark)

    with pytest.raises(storage.StorageError, match="over"):
        notes.write(body)
    assert grants(notes) == []


def test_a_mark_that_is_kept_undoes_nothing_any_more(notes: storage.Database) -> None:
    """What was done since stays, also where an earlier mark goes on standing; the kept one is used up."""

    def body(tx: storage.Transaction) -> None:
        outer = tx.mark()
        tx.execute(INSERT, add("a"))
        inner = tx.mark()
        tx.execute(INSERT, add("b"))
        tx.keep(inner)
        for use in (tx.keep, tx.undo):
            with pytest.raises(storage.StorageError, match="use each mark once"):
                use(inner)
        tx.execute(INSERT, add("c"))
        tx.keep(outer)

    notes.write(body)
    assert grants(notes) == ["a", "b", "c"]


def test_an_earlier_mark_undoes_what_a_later_one_kept(notes: storage.Database) -> None:
    """Keeping lets go of one mark alone; the ones before it can still undo everything."""

    def body(tx: storage.Transaction) -> None:
        outer = tx.mark()
        inner = tx.mark()
        tx.execute(INSERT, add("a"))
        tx.keep(inner)
        tx.undo(outer)

    notes.write(body)
    assert grants(notes) == []
