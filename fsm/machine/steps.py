"""Each step of a trigger, compiled once into a function of the record."""

import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from fsm.errors import DefinitionError
from fsm.lifecycle.steps import DECLINE, Authority, Check, Do, Fence, Load, Look, Replay, Secret, Source, Step
from fsm.lifecycle.structure import Trigger
from fsm.lifecycle.terms import Of, Predicate, parameter, predicate
from fsm.machine import statements
from fsm.machine.locks import LOAD
from fsm.machine.projection import Projection
from fsm.machine.record import NO_ROW, Action, Record
from fsm.machine.refusals import found_in, refused
from storage import Value

__all__ = ["DECLINED", "REPLAYED", "Compiler", "Ran"]

REPLAYED, DECLINED = "replayed", "declined"
Refused = Callable[[Record, Mapping[str, Value]], str | None]
Ran = Callable[[Record], str | None]
"""A compiled step: None lets the next step run; REPLAYED or DECLINED ends the call there."""


class Compiler:
    """Turns the steps of one trigger into functions."""

    def __init__(
        self, projection: Projection, trigger: Trigger, actions: Mapping[str, Action], needed: frozenset[Of]
    ) -> None:
        self.projection = projection
        self.lifecycle = projection.lifecycle
        self.trigger = trigger
        self.actions = actions
        self.needed = needed

    def compile(self, step: Step) -> Ran:
        """Return the function that runs this step; a Write has its own place and is not compiled here."""
        ways: dict[type[Step], Callable[[Any], Ran]] = {
            Authority: self._authority,
            Load: self._load,
            Look: self._look,
            Replay: self._replay,
            Fence: self._fence,
            Source: self._source,
            Secret: self._secret,
            Do: self._do,
        }
        return ways[type(step)](step)

    def refuse(self, record: Record, step: str, otherwise: object, said: str) -> str:
        """Raise the refusal, or return DECLINED where the step declines instead."""
        if otherwise is DECLINE:
            return DECLINED
        raise refused(self.lifecycle.name, self.trigger.name, step, record.state, otherwise, said)  # type: ignore[arg-type]  # what is not DECLINE is a Refusal

    def _copied(self, name: str) -> tuple[tuple[str, str], ...]:
        """Name the values that later steps use of an answer, with its columns."""
        return tuple((parameter(each), each.column) for each in self.needed if each.step == name)

    def _compiled(self, name: str, checks: Iterable[Check]) -> tuple[tuple[Predicate, Refused], ...]:
        def refused_by(check: Check) -> Refused:
            return lambda record, row: self.refuse(
                record, name, check.refuse, found_in(row, record.values, check.terms)
            )

        return tuple((predicate(check.terms), refused_by(check)) for check in checks)

    def _fence(self, step: Fence) -> Ran:
        ((holds, refuse),) = self._compiled("Fence", (Check(step.terms, step.refuse),))

        def run(record: Record) -> str | None:
            row = NO_ROW if record.row is None else record.row
            return None if holds(row, record.values) else refuse(record, row)

        return run

    def _authority(self, step: Authority) -> Ran:
        absent = f"expected a row of {step.table.name}, found none"

        def missing(record: Record) -> str:
            return self.refuse(record, step.name, step.missing, absent)

        return self._reading(step, statements.authority_statement(self.trigger, step), missing)

    def _look(self, step: Look) -> Ran:
        return self._reading(step, statements.look_statement(self.lifecycle, self.trigger, step), None)

    def _reading(self, step: Authority | Look, statement: str, missing: Callable[[Record], str] | None) -> Ran:
        name, checks, copied = step.name, self._compiled(step.name, step.checks), self._copied(step.name)

        def run(record: Record) -> str | None:
            values = record.values
            rows = record.locked[name] if name in record.locked else record.tx.execute(statement, values)
            if not rows and missing is not None:
                return missing(record)
            row: Mapping[str, Value] = rows[0] if rows else NO_ROW
            record.found[name] = row
            for target, column in copied:
                values[target] = row[column]
            for holds, refuse in checks:
                if not holds(row, values):
                    return refuse(record, row)
            return None

        return run

    def _load(self, step: Load) -> Ran:
        statement, project = statements.load_statement(self.lifecycle), self.projection.state_of
        before, join = self._key_from(step.by), self._joining()
        checks, copied = self._compiled("Load", step.checks), self._copied("record")
        absent = f"expected a {self.lifecycle.name}, found none with this key"

        def run(record: Record) -> str | None:
            before(record)
            join(record)
            values = record.values
            rows = record.locked[LOAD] if LOAD in record.locked else record.tx.execute(statement, values)
            row: Mapping[str, Value] = rows[0] if rows else NO_ROW
            record.row = rows[0] if rows else None
            record._state = project(record.row, record.joined, values)  # noqa: SLF001 # the machine alone sets it
            for target, column in copied:
                values[target] = row[column]
            if record.row is None:
                return None if step.missing is None else self.refuse(record, "Load", step.missing, absent)
            for holds, refuse in checks:
                if not holds(row, values):
                    return refuse(record, row)
            return None

        return run

    def _key_from(self, look: str | None) -> Callable[[Record], None]:
        if look is None:
            return _nothing
        key = self.lifecycle.key

        def take(record: Record) -> None:
            record.values.update((column, record.found[look][column]) for column in key)

        return take

    def _joining(self) -> Callable[[Record], None]:
        statement, copied = statements.joined_statement(self.lifecycle), self._copied("joined")
        if statement is None:
            return _nothing

        def join(record: Record) -> None:
            rows = record.tx.execute(statement, record.values)
            record.joined = rows[0] if rows else None
            found = record.found["joined"] = rows[0] if rows else NO_ROW
            record.values.update((target, found[column]) for target, column in copied)

        return join

    def _replay(self, step: Replay) -> Ran:
        same = predicate(step.terms)
        conflict = predicate(step.conflict) if step.conflict is not None else None
        on = step.on

        def run(record: Record) -> str | None:
            row = record.row if on is None else record.found[on]
            if row is None or row is NO_ROW:
                return None
            if same(row, record.values):
                return REPLAYED
            if conflict is not None and conflict(row, record.values):
                return self.refuse(record, "Replay", step.refuse, found_in(row, record.values, step.terms))
            return None

        return run

    def _source(self, step: Source) -> Ran:
        left = frozenset(edge.source.name for edge in self.trigger.edges)
        per = {each.name: refusal for each, refusal in step.per.items()}
        expected = " or ".join(dict.fromkeys(edge.source.name for edge in self.trigger.edges))

        def run(record: Record) -> str | None:
            state = record.state
            if state in left:
                return None
            otherwise = per.get(state or "", step.refuse)
            return self.refuse(record, "Source", otherwise, f"expected state {expected}, found {state}")

        return run

    def _secret(self, step: Secret) -> Ran:
        name = step.argument.name

        def run(record: Record) -> str | None:
            stored, shown = (record.row or NO_ROW)[step.column], record.values[name]
            if isinstance(stored, str) and isinstance(shown, str) and stored and _same_secret(stored, shown):
                return None
            return self.refuse(record, "Secret", step.refuse, f"expected the secret of {step.column}, found another")

        return run

    def _do(self, step: Do) -> Ran:
        action, name, copied = self.actions[step.name], step.name, self._copied(step.name)
        hook = step.hook

        if step.reads_only:
            action = self._reading_only(name, action)

        def run(record: Record) -> str | None:
            if hook and name not in record.context:
                return None
            record.allowed = step.fires
            answer = action(record)
            record.allowed = ()
            record.found[name] = found = {} if answer is None else answer
            for target, column in copied:
                record.values[target] = self._answered(name, found, column)
            return None

        return run

    def _reading_only(self, name: str, action: Action) -> Action:
        def watched(record: Record) -> Mapping[str, Any] | None:
            changes = record.tx.changes
            answer = action(record)
            if record.tx.changes != changes:
                place = f"lifecycle {self.lifecycle.name}, trigger {self.trigger.name}"
                raise DefinitionError(f"{place}: the step {name} reads only, and changed rows; take reads_only away")
            return answer

        return watched

    def _answered(self, name: str, answer: object, column: str) -> Value:
        if not isinstance(answer, Mapping) or column not in answer:
            place = f"lifecycle {self.lifecycle.name}, trigger {self.trigger.name}"
            raise DefinitionError(f"{place}: the step {name} must answer {column!r}; return a mapping that has it")
        return cast("Value", answer[column])


def _nothing(_: Record) -> None:
    """Stand for a part of a step that this declaration does not have."""


def _same_secret(stored: str, shown: str) -> bool:
    return hmac.compare_digest(stored.encode("utf-8", "surrogatepass"), shown.encode("utf-8", "surrogatepass"))
