"""Whatever ends without a move writes nothing, also where a Do had written; and sweeps keep what firing promises."""

from collections.abc import Callable
from typing import Any

import pytest

from fsm import (
    ArgumentError,
    DefinitionError,
    Lifecycle,
    Machine,
    Outcome,
    RefusedError,
    StorageError,
    observe,
    table_of,
)
from fsm.lifecycle import (
    DECLINE,
    NEW,
    Arg,
    Check,
    Do,
    Edge,
    Load,
    Look,
    Of,
    Replay,
    Source,
    State,
    Term,
    Trigger,
    Write,
    given,
    stored,
)
from fsm.observers import Transition
from storage import Column, Database, Row, Schema, Table
from tests.engines import Engine
from tests.machine.parcels import note

JOBS = Table(
    "jobs",
    (Column("id", "TEXT"), Column("status", "TEXT"), Column("n", "INTEGER", default=0, minimum=0)),
    primary_key=("id",),
)
LOG = Table("log", (Column("id", "INTEGER"), Column("line", "TEXT")), primary_key=("id",), autoincrement=True)
OPEN = stored("status", "open", "it may be done")
BUSY = stored("status", "busy", "it is being done")
DONE = stored("status", "done", "it was done", final=True)
CREATE = Trigger("create", "it is asked for", Load(), Write(), edges=(Edge(NEW, OPEN, (), {"n": Arg("n")}),))
TAKE = Trigger("take", "somebody does it", Load(), Source(), Write(), edges=(Edge(OPEN, BUSY),))
LOGGED = Do("log", "a line in the log")


def finish(*steps: Any, edge: Edge | None = None) -> Trigger:
    """Return a trigger `finish` with these steps."""
    return Trigger("finish", "it is done", *steps, edges=(edge or Edge(BUSY, DONE),))


def machine(trigger: Trigger, **hooks: Callable[..., Any]) -> Machine:
    """Return the machine of the jobs with one more trigger."""
    names = {step.name for step in trigger.dos()}
    lifecycle = Lifecycle("job", "work", JOBS, (OPEN, BUSY, DONE), (CREATE, TAKE, trigger, SPARE))
    return Machine(lifecycle, {name: hooks.get(name, note(name)) for name in names})


SPARE = Trigger("end", "it ends", Load(), Source(), Write(), edges=(Edge(BUSY, DONE),))


def prepared(db: Database, jobs: Machine, *statuses: str) -> Machine:
    """Store a job in each of the states, named a, b, c and so on."""
    db.require(Schema("jobs", (table_of(jobs.lifecycle), LOG)))
    with db.transaction() as tx:
        for name, status in zip("abcdefg", statuses, strict=False):
            tx.execute("INSERT INTO jobs VALUES (:id, :status, 0)", {"id": name, "status": status})
    return jobs


def rows(db: Database, table: str = "jobs") -> list[Row]:
    """Return every row of a table."""
    return db.read(lambda tx: tx.execute(f"SELECT * FROM {table} ORDER BY id"))


def fire(db: Database, jobs: Machine, **arguments: Any) -> Outcome:
    """Fire `finish` on job a."""
    return db.write(lambda tx: jobs.fire(tx, "finish", now=1.0, id="a", **arguments))


NEVER = Look("never", JOBS, Term("n", ">", 9), checks=(Check(Term("id", "=", "z"), DECLINE),))


@pytest.mark.parametrize(
    "steps",
    [
        (Load(), Source(), LOGGED, NEVER, Write()),
        (Load(), LOGGED, Source(DECLINE), Write()),
        (Load(), LOGGED, Replay(Term("status", "=", "open")), Source(), Write()),
        (Load(), Source(DECLINE), LOGGED, Write(stale=DECLINE)),
    ],
    ids=["a look declines", "the source declines", "an exact retry", "the write declines"],
)
def test_what_a_step_wrote_before_a_call_ended_without_a_move_is_undone(db: Database, steps: tuple[Any, ...]) -> None:
    """A call that declines or replays has written nothing, and the caller's transaction goes on."""
    stolen = isinstance(steps[-2], Do)

    def steal(record: Any) -> None:
        note("log")(record)
        record.tx.execute("UPDATE jobs SET status = 'open'")

    jobs = prepared(
        db,
        machine(finish(*steps), log=steal if stolen else note("log")),
        "busy" if stolen or NEVER in steps else "open",
    )
    before = rows(db)
    with db.transaction() as tx:
        tx.execute("INSERT INTO log (line) VALUES ('before')")
        outcome = jobs.fire(tx, "finish", now=1.0, id="a")
        assert outcome.declined or outcome.replayed
        tx.execute("INSERT INTO log (line) VALUES ('after')")
    assert [row["line"] for row in rows(db, "log")] == ["before", "after"]
    assert rows(db) == before


def test_a_guard_may_depend_on_what_a_step_answers(engine: Engine) -> None:
    """A guard that names a Do's answer is judged after that Do."""
    edge = Edge(BUSY, DONE, Term(Of("pick", "x"), "=", 1))
    for answer, said in ((1, "done"), (2, None)):
        jobs = machine(
            finish(Load(), Source(), Do("pick", "picks"), Write(), edge=edge), pick=lambda _, x=answer: {"x": x}
        )
        handle = engine.fresh()
        prepared(handle, jobs, "busy")
        if said is None:
            with pytest.raises(RefusedError, match="nothing leads on from state busy"):
                fire(handle, jobs)
        else:
            assert fire(handle, jobs).state == said


def test_a_replay_may_judge_any_column_of_what_a_look_found(db: Database) -> None:
    """What a replay names of a Look's row is read, whether or not a check names it too."""
    look = Look("other", JOBS, Term("id", "=", "b"))
    jobs = prepared(
        db, machine(finish(Load(), look, Replay(Term("n", "=", 0), on="other"), Source(), Write())), "open", "open"
    )
    assert fire(db, jobs).replayed is True


@pytest.mark.parametrize("answer", [5, {}, {"y": 1}, [1]])
def test_a_step_that_answers_too_little_is_named(db: Database, answer: object) -> None:
    """A Do whose answer lacks what later steps name is a wrong binding, said by name."""
    edge = Edge(BUSY, DONE, (), {"n": Of("pick", "x")})
    jobs = prepared(
        db, machine(finish(Load(), Source(), Do("pick", "picks"), Write(), edge=edge), pick=lambda _: answer), "busy"
    )
    with pytest.raises(DefinitionError, match="the step pick must answer 'x'"):
        fire(db, jobs)


def test_the_row_that_is_not_there_cannot_be_changed(db: Database) -> None:
    """What a Look answers when it finds nothing is shared by nobody's changes."""
    jobs = prepared(db, machine(finish(Load(), Look("none", JOBS, Term("n", ">", 9)), Source(), Write())), "busy")
    found = fire(db, jobs).found["none"]
    with pytest.raises(TypeError):
        found["id"] = "x"  # type: ignore[index] # that it cannot be assigned is what is tested
    assert found["id"] is None


@pytest.mark.parametrize("now", [None, float("nan"), float("inf"), "1"])
def test_an_instant_is_a_finite_number(db: Database, now: Any) -> None:
    """Firing without a finite instant is refused before anything is read."""
    jobs = prepared(db, machine(finish(Load(), Source(), Write())), "busy")
    with db.transaction() as tx, pytest.raises(ArgumentError, match="the instant of the call"):
        jobs.fire(tx, "finish", now=now, id="a")


def test_null_is_refused_where_the_declaration_does_not_expect_it(db: Database) -> None:
    """An argument that is not declared nullable cannot be None, since predicate and SQL would then disagree."""
    jobs = prepared(db, machine(finish(Load(), Source(), Write())))
    with db.transaction() as tx, pytest.raises(ArgumentError, match="takes no null for n"):
        jobs.fire(tx, "create", now=1.0, id="a", n=None)


def test_a_step_that_fires_without_being_connected_is_told_so(db: Database) -> None:
    """Firing another machine before they were connected is a definition error, not a missing key."""
    trigger = finish(Load(), Source(), Do("call", "calls", fires=(("job", "take"),)), Write())
    jobs = prepared(db, machine(trigger, call=lambda record: record.fire("job", "take", id="b")), "busy", "open")
    with pytest.raises(DefinitionError, match="call connect with both of them first"):
        fire(db, jobs)


def test_an_autoincrement_key_is_given_by_the_database(db: Database) -> None:
    """A record whose key the database makes is created without one, and its outcome says which it got."""
    table = Table("logs", (Column("id", "INTEGER"), Column("status", "TEXT")), primary_key=("id",), autoincrement=True)
    end = Trigger("end", "x", Load(), Source(), Write(), edges=(Edge(OPEN, DONE),))
    start = Trigger("start", "x", Load(), Write(), edges=(Edge(NEW, OPEN),))
    entries = Machine(Lifecycle("entry", "an entry", table, (OPEN, DONE), (start, end)))
    db.require(Schema("logs", (table_of(entries.lifecycle),)))
    with db.transaction() as tx:
        made = [entries.fire(tx, "start", now=1.0).stored["id"] for _ in range(3)]
        assert entries.fire(tx, "end", now=1.0, id=made[1]).state == "done"
        with pytest.raises(ArgumentError, match="needs the arguments id"):
            entries.fire(tx, "end", now=1.0)
    assert made == [1, 2, 3]


# --- sweeps


def sweeping(*edges: Edge, states: tuple[State, ...] = (OPEN, BUSY, DONE)) -> Machine:
    """Return a machine with a sweep over these edges."""
    swept = Trigger("sweep", "all of them", kind="sweep", edges=edges)
    return Machine(Lifecycle("job", "work", JOBS, states, (CREATE, TAKE, SPARE, swept)))


def test_a_sweep_that_fails_half_way_cannot_be_committed(db: Database) -> None:
    """Where a later edge of a sweep fails, what an earlier one moved is rolled back, also when the error is caught."""
    jobs = prepared(db, sweeping(Edge(BUSY, DONE), Edge(OPEN, DONE, (), {"n": Arg("n")})), "busy", "open")
    before = rows(db)

    def go_on() -> None:
        with db.transaction() as tx, pytest.raises(StorageError):
            jobs.sweep(tx, "sweep", now=1.0, n=-1)

    with pytest.raises(StorageError, match="rolled back"):
        go_on()
    assert rows(db) == before


def test_a_sweep_that_does_not_arrive_is_noticed(db: Database) -> None:
    """A sweep whose writes do not lead to the declared state is refused, and nobody hears of it."""
    fresh = State("fresh", "untouched", (*OPEN.terms, Term("n", "=", 0)))
    worn = State("worn", "touched", (*OPEN.terms, Term("n", ">", 0)))
    start = Trigger("create", "x", Load(), Write(), edges=(Edge(NEW, fresh),))
    end = Trigger("end", "x", Load(), Source(), Write(), edges=(Edge(worn, DONE),))
    swept = Trigger("sweep", "x", kind="sweep", edges=(Edge(fresh, worn, given("id")),))
    jobs = prepared(db, Machine(Lifecycle("job", "work", JOBS, (fresh, worn, DONE), (start, end, swept))), "open")
    heard: list[Transition] = []
    observe(db, heard.append)
    with pytest.raises(DefinitionError, match="not in the state worn"):
        db.write(lambda tx: jobs.sweep(tx, "sweep", now=1.0, id="a"))
    assert heard == []


def test_observers_hear_of_each_swept_record(db: Database) -> None:
    """A sweep is heard of once for every record, with its own source."""
    jobs = prepared(db, sweeping(Edge(BUSY, DONE), Edge(OPEN, DONE)), "busy", "open", "done")
    heard: list[Transition] = []
    observe(db, heard.append)
    db.write(lambda tx: jobs.sweep(tx, "sweep", now=1.0))
    assert [(each.source, each.dest, each.key) for each in heard] == [
        ("busy", "done", {"id": "a"}),
        ("open", "done", {"id": "b"}),
    ]


def test_an_argument_decides_which_edge_a_sweep_takes(db: Database) -> None:
    """A guard of a sweep that names arguments alone is judged too."""
    edges = tuple(Edge(OPEN, dest, Term(Arg("to"), "=", dest.name)) for dest in (BUSY, DONE))
    jobs = prepared(db, sweeping(*edges), "open", "open")
    db.write(lambda tx: jobs.sweep(tx, "sweep", now=1.0, to="done"))
    assert [row["status"] for row in rows(db)] == ["done", "done"]


def test_an_observer_is_a_function(db: Database) -> None:
    """What cannot be called is refused, and a location stands for its handle."""
    with pytest.raises(ArgumentError):
        observe(db, "loudly")  # type: ignore[arg-type] # what is tested
    with pytest.raises(ArgumentError):
        observe(None, print)  # type: ignore[arg-type] # what is tested
    heard: list[Transition] = []
    observe(db.location, heard.append)
    jobs = prepared(db, machine(finish(Load(), Source(), Write())), "busy")
    fire(db, jobs)
    assert len(heard) == 1
