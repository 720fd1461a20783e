"""The machine of a lifecycle: `transitions` runs every change of a single record, each persisted by a fenced write."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import isfinite
from typing import Any

from transitions.core import EventData, MachineError

from fsm import observers
from fsm.errors import ArgumentError, DefinitionError
from fsm.lifecycle.declaration import Lifecycle
from fsm.lifecycle.steps import DECLINE, WRONG_STATE, Otherwise, Refusal
from fsm.lifecycle.structure import GONE, NEW, Edge, Trigger, stands_for_row
from fsm.lifecycle.terms import Condition, Conditions, conjunction, predicate
from fsm.machine import statements
from fsm.machine.engine import Engine
from fsm.machine.explaining import Finding, explain
from fsm.machine.locks import Locks
from fsm.machine.plan import Plan, Sweep
from fsm.machine.projection import UNDECLARED, Projection
from fsm.machine.record import NO_CONTEXT, NO_ROW, Action, Outcome, Record, Swept
from fsm.machine.refusals import refused
from fsm.machine.steps import DECLINED, REPLAYED, Ran
from storage import Row, Transaction, Value

__all__ = ["Machine", "connect"]


class _Declined(Exception):  # noqa: N818 # not an error: it carries a decline out of the engine
    """The write found no row, or no edge fits, and the trigger's Write declines."""


class Machine:
    """Runs one lifecycle; shared by all threads, since every call has a record of its own.

    Raises DefinitionError where `actions` does not bind exactly the names that the declaration's Do steps have.
    """

    def __init__(self, lifecycle: Lifecycle, actions: Mapping[str, Action] | None = None) -> None:
        self.lifecycle = lifecycle
        self.projection = Projection(lifecycle)
        self._others: dict[str, Machine] = {}
        self._locks = Locks(lifecycle, None)
        self._selects: dict[tuple[Conditions, tuple[str, ...]], str] = {}
        bound = dict(actions or {})
        _bound_exactly(lifecycle, bound)
        self._plans = {
            each.name: Plan(self.projection, each, bound) for each in lifecycle.triggers if each.kind != "time"
        }
        self._engine = self._build()

    def _build(self) -> Engine:
        states = [state.name for state in self.lifecycle.states]
        engine = Engine(
            model=None,
            states=[*states, NEW.name, GONE.name, UNDECLARED],
            initial=NEW.name,
            auto_transitions=False,
            send_event=True,
            queued=False,
            ignore_invalid_triggers=False,
            model_attribute="_state",
        )
        for plan in self._plans.values():
            if plan.trigger.kind != "fire":
                continue
            for edge in plan.trigger.edges:
                engine.add_transition(
                    plan.trigger.name,
                    edge.source.name,
                    edge.dest.name,
                    conditions=[_guard(edge)] if edge.guard else None,
                    before=[*map(_callback, plan.inside), self._writer(plan, edge), *map(_callback, plan.last)],
                    after=[partial(self._committing, plan.trigger, edge)],
                )
        return engine

    def fire(
        self,
        tx: Transaction,
        trigger: str,
        context: Mapping[str, Any] = NO_CONTEXT,
        /,
        *,
        now: float,
        **arguments: Value,
    ) -> Outcome:
        """Move one record in the transaction that the caller holds; its key is among the arguments.

        `now` is the instant of the call in seconds. `context` is for the operation's own steps alone, such as the
        caller's hooks: no term and no statement reads it. Raises what the trigger's steps declare, ArgumentError for an
        unknown trigger or a missing argument. An exact retry, where the trigger replays, returns what is stored with
        `replayed`. When it raises after something was written, the transaction can only be rolled back.
        """
        plan = self._plan(trigger, "fire")
        arguments["now"] = now
        record = self._record(tx, plan, arguments, context)
        changes = tx.changes
        try:
            return self._run(plan, record)
        except BaseException:
            self._fail(plan, record, changes)
            raise

    def sweep(self, tx: Transaction, trigger: str, /, *, now: float, **arguments: Value) -> Swept:
        """Move every record that satisfies the sweep's terms, one statement per edge; raises what its steps declare.

        When it raises after something was written, the transaction can only be rolled back.
        """
        plan = self._plan(trigger, "sweep")
        arguments["now"] = now
        record = self._record(tx, plan, arguments)
        changes = tx.changes
        try:
            if tx.locks_rows:
                plan.locks.take(record)
            if _until(plan.first, record) is not None:
                return Swept(())
            return Swept(tuple(moved for swept in plan.swept for moved in self._swept(plan, record, swept)))
        except BaseException:
            self._fail(plan, record, changes)
            raise

    def explain(self, tx: Transaction, trigger: str, /, *, now: float, **arguments: Value) -> tuple[Finding, ...]:
        """Say step by step what firing would come to, up to the first step that ends the call; nothing is written.

        Takes what `fire` takes, in a transaction that may be a read. Raises ArgumentError as `fire` does.
        """
        plan = self._plan(trigger, "fire")
        arguments["now"] = now
        return tuple(explain(plan, self._record(tx, plan, arguments)))

    def _swept(self, plan: Plan, record: Record, swept: Sweep) -> Iterator[tuple[str, str, Row]]:
        edge, told = swept.edge, observers.listening(record.tx)
        for row in record.tx.execute(swept.statement, record.values):
            if swept.arrived is not None and not swept.arrived(row, record.values):
                raise self._astray(plan, edge)
            key = {column: row[column] for column in self.lifecycle.key}
            if told:
                self._announce(record, plan.trigger, edge, key)
            yield edge.source.name, edge.dest.name, key

    @staticmethod
    def _fail(plan: Plan, record: Record, changes: int) -> None:
        """Let a failure leave no trace: the record dies, and a transaction in which it wrote cannot be committed."""
        record.die()
        if record.tx.changes != changes:
            record.tx.doom(f"{plan.name} failed after something was written")

    def lock_root(self, tx: Transaction, /, **key: Value) -> None:
        """Hold the root, or a record without one, until the end: for an operation that reads ahead of what it fires."""
        if tx.locks_rows:
            self._locks.take(Record(tx, self.lifecycle.name, key, self._others))

    def select(
        self,
        tx: Transaction,
        where: Condition | Conditions,
        *,
        values: Mapping[str, Value],
        order: tuple[str, ...] = (),
    ) -> list[Row]:
        """Return the rows that satisfy the terms, in order; it reads and locks nothing."""
        asked = (conjunction(where), order)
        statement = self._selects.get(asked)
        if statement is None:
            statement = self._selects[asked] = statements.select_statement(self.lifecycle.table, *asked)
        return tx.execute(statement, values)

    def state_of(self, row: Row | None, *, now: float, joined: Row | None = None) -> str:
        """Return the name of the state that a stored row is in at this instant."""
        return self.projection.state_of(row, joined, {"now": now})

    def _plan(self, trigger: str, kind: str) -> Plan:
        plan = self._plans.get(trigger)
        if plan is None or plan.trigger.kind != kind:
            raise ArgumentError(
                f"lifecycle {self.lifecycle.name} has no trigger {trigger!r} to {kind}; see its declaration"
            )
        return plan

    def _record(
        self, tx: Transaction, plan: Plan, values: dict[str, Value], context: Mapping[str, Any] = NO_CONTEXT
    ) -> Record:
        if not plan.required.issubset(values):
            if self.lifecycle.key_is_given_by_the_database and plan.trigger.creates:
                # The database gives the key; until then it is null, which no stored record has.
                values.update(dict.fromkeys(self.lifecycle.key))
            if missing := plan.required - values.keys():
                raise ArgumentError(f"{plan.name} needs the arguments {', '.join(sorted(missing))}; pass them by name")
        if None in values.values() and (null := [name for name in plan.never_null if values[name] is None]):
            raise ArgumentError(f"{plan.name} takes no null for {', '.join(sorted(null))}; pass a value")
        now = values["now"]
        if not isinstance(now, (float, int)) or not isfinite(now):
            raise ArgumentError(f"{plan.name} needs the instant of the call as a finite number of seconds; pass now")
        return Record(tx, self.lifecycle.name, values, self._others, context)

    def _run(self, plan: Plan, record: Record) -> Outcome:
        """Run the trigger; what it wrote before it turned out to replay or to decline is undone."""
        tx = record.tx
        if tx.locks_rows:
            plan.locks.take(record)
        mark = tx.mark() if plan.tentative(record.context) else None
        ended = _until(plan.first, record)
        source = str(record.state)
        if ended is not None:
            if mark is not None:
                tx.undo(mark)
            return Outcome(source, source, record.row, ended == REPLAYED, ended == DECLINED, record.found)
        if mark is not None and not plan.may_decline:
            tx.keep(mark)
            mark = None
        return self._move(plan, record, source, mark)

    def _move(self, plan: Plan, record: Record, source: str, mark: object | None) -> Outcome:
        try:
            moved = self._engine.events[plan.trigger.name].trigger(record)
        except MachineError as error:
            if source in plan.sources:
                raise
            expected = f"expected state {' or '.join(sorted(plan.sources))}, found {source}"
            raise self._refused(plan, record, "Source", plan.source, expected) from error
        except _Declined:
            moved = False
        else:
            if not moved and plan.write.unmatched is not DECLINE:
                nowhere = f"nothing leads on from state {source} for this call"
                raise self._refused(plan, record, "Write", plan.write.unmatched, nowhere)
        if mark is not None:
            end = record.tx.keep if moved else record.tx.undo
            end(mark)
        if not moved:
            return Outcome(source, source, record.row, declined=True, found=record.found)
        return Outcome(source, str(record.state), record.row, found=record.found, previous=record.previous)

    def _refused(self, plan: Plan, record: Record, step: str, otherwise: Otherwise, said: str) -> Exception:
        refusal = otherwise if isinstance(otherwise, Refusal) else WRONG_STATE
        return refused(self.lifecycle.name, plan.trigger.name, step, record.state, refusal, said)

    def _writer(self, plan: Plan, edge: Edge) -> Callable[[EventData], None]:
        statement = statements.write_statement(self.lifecycle, plan.trigger, edge)
        project, dest, gone = self.projection.state_of, edge.dest.name, not stands_for_row(edge.dest)

        def write(event: EventData) -> None:
            record: Record = event.model  # type: ignore[assignment] # the machine fires with records alone
            rows = record.tx.execute(statement, record.values)
            if len(rows) != 1:
                plan.compiler.refuse(
                    record, "Write", plan.write.stale, f"expected to change one row, changed {len(rows)}"
                )
                raise _Declined
            record.previous, record.row = record.row, None if gone else rows[0]
            if not gone and project(record.row, None, record.values) != dest:
                raise self._astray(plan, edge)

        return write

    @staticmethod
    def _astray(plan: Plan, edge: Edge) -> DefinitionError:
        found = f"what it wrote is not in the state {edge.dest.name}"
        return DefinitionError(f"{plan.name}: {found}; mend the edge's writes")

    def _committing(self, trigger: Trigger, edge: Edge, event: EventData) -> None:
        record: Record = event.model  # type: ignore[assignment] # the machine fires with records alone
        if observers.listening(record.tx):
            row = record.row or record.previous or {}
            self._announce(
                record, trigger, edge, {column: row[column] for column in self.lifecycle.key if column in row}
            )

    def _announce(self, record: Record, trigger: Trigger, edge: Edge, key: Row) -> None:
        at = record.values["now"]
        transition = observers.Transition(self.lifecycle.name, key, trigger.name, edge.source.name, edge.dest.name, at)
        observers.queue(record.tx, transition)

    def link(self, machines: Mapping[str, "Machine"]) -> None:
        """Resolve the triggers that the declaration's steps fire; raises DefinitionError for an unknown one."""
        for trigger in self.lifecycle.triggers:
            for step in trigger.dos():
                for name, fired in step.fires:
                    other = machines.get(name)
                    if other is None or fired not in other._plans:  # noqa: SLF001 # another of its own kind
                        raise DefinitionError(
                            f"lifecycle {self.lifecycle.name}, trigger {trigger.name}: its step {step.name} fires"
                            f" {name}.{fired}, which does not exist; connect that machine or mend the name"
                        )
                    self._others[name] = other


def connect(*machines: Machine) -> None:
    """Let the machines fire each other's triggers, as their declarations say; raises DefinitionError as `link` does."""
    named = {machine.lifecycle.name: machine for machine in machines}
    if len(named) != len(machines):
        raise DefinitionError("two machines to connect have one lifecycle's name; connect each lifecycle once")
    for machine in machines:
        machine.link(named)


def _bound_exactly(lifecycle: Lifecycle, actions: Mapping[str, Action]) -> None:
    declared = {step.name for trigger in lifecycle.triggers for step in trigger.dos()}
    for name in sorted(declared ^ actions.keys()):
        problem = "is declared and bound to nothing" if name in declared else "is bound and not declared"
        raise DefinitionError(
            f"lifecycle {lifecycle.name}: the step {name!r} {problem}; bind exactly what its Do steps name"
        )
    for name, action in actions.items():
        if not callable(action):
            raise DefinitionError(
                f"lifecycle {lifecycle.name}: the step {name!r} is bound to no function; pass a callable"
            )


def _until(steps: Iterable[Ran], record: Record) -> str | None:
    for step in steps:
        ended = step(record)
        if ended is not None:
            return ended
    return None


def _callback(step: Ran) -> Callable[[EventData], None]:
    def run(event: EventData) -> None:
        step(event.model)  # type: ignore[arg-type] # the machine fires with records alone

    return run


def _guard(edge: Edge) -> Callable[[EventData], bool]:
    holds = predicate(edge.guard)

    def guard(event: EventData) -> bool:
        record: Record = event.model  # type: ignore[assignment] # the machine fires with records alone
        return holds(NO_ROW if record.row is None else record.row, record.values)

    return guard
