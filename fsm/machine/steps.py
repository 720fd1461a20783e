"""Each step of a trigger, compiled once into a function of the record."""

import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fsm.lifecycle.steps import DECLINE, Authority, Check, Do, Fence, Load, Look, Replay, Secret, Source, Step
from fsm.lifecycle.structure import Trigger
from fsm.lifecycle.terms import Of, predicate
from fsm.machine import statements
from fsm.machine.projection import Projection
from fsm.machine.record import NO_ROW, Action, Record
from fsm.machine.refusals import found_in, refused
from storage import Row, Value

__all__ = ["DECLINED", "REPLAYED", "Compiler", "Ran"]

REPLAYED, DECLINED = "replayed", "declined"
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

    def _columns_of(self, name: str) -> tuple[tuple[str, str], ...]:
        return tuple((f"{name}__{each.column}", each.column) for each in self.needed if each.step == name)

    def _answer(self, name: str) -> Callable[[Record, Mapping[str, Value]], None]:
        copied = self._columns_of(name)

        def answer(record: Record, row: Mapping[str, Value]) -> None:
            record.found[name] = row
            for target, column in copied:
                record.values[target] = row[column]

        return answer

    def _checks(self, name: str, checks: Iterable[Check]) -> Callable[[Record, Mapping[str, Value]], str | None]:
        compiled = tuple((predicate(check.terms), check) for check in checks)

        def run(record: Record, row: Mapping[str, Value]) -> str | None:
            for holds, check in compiled:
                if not holds(row, record.values):
                    return self.refuse(record, name, check.refuse, found_in(row, record.values, check.terms))
            return None

        return run

    def _fence(self, step: Fence) -> Ran:
        run = self._checks("Fence", (Check(step.terms, step.refuse),))
        return lambda record: run(record, NO_ROW if record.row is None else record.row)

    def _authority(self, step: Authority) -> Ran:
        statement = statements.authority_statement(step, self.needed)
        answer, checks = self._answer(step.name), self._checks(step.name, step.checks)

        def run(record: Record) -> str | None:
            rows = record.tx.execute(statement, record.values)
            if not rows:
                return self.refuse(record, step.name, step.missing, f"expected a row of {step.table.name}, found none")
            answer(record, rows[0])
            return checks(record, rows[0])

        return run

    def _load(self, step: Load) -> Ran:
        statement = statements.load_statement(self.lifecycle, step)
        joined = statements.joined_statement(self.lifecycle)
        key, project = self.lifecycle.key, self.projection.state_of
        checks = self._checks("Load", step.checks)
        answer, answer_joined = self._answer("record"), self._answer("joined")

        def run(record: Record) -> str | None:
            rows = record.tx.execute(statement, record.values)
            record.row = rows[0] if rows else None
            if joined is not None:
                record.joined = _first(record.tx.execute(joined, record.values))
                answer_joined(record, record.joined or NO_ROW)
            record._state = project(record.row, record.joined, record.values)  # noqa: SLF001 # the machine alone sets it
            answer(record, record.row or NO_ROW)
            if record.row is None:
                missing = step.missing
                found = f"expected a {self.lifecycle.name}, found none with this key"
                return None if missing is None else self.refuse(record, "Load", missing, found)
            if step.key is not None:
                record.values.update((column, record.row[column]) for column in key)
            return checks(record, record.row)

        return run

    def _look(self, step: Look) -> Ran:
        statement = statements.look_statement(step, self.needed)
        answer, checks = self._answer(step.name), self._checks(step.name, step.checks)

        def run(record: Record) -> str | None:
            row = _first(record.tx.execute(statement, record.values)) or NO_ROW
            answer(record, row)
            return checks(record, row)

        return run

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
            stored = str((record.row or NO_ROW)[step.column] or "")
            shown = str(record.values[name] or "")
            if stored and hmac.compare_digest(stored.encode(), shown.encode()):
                return None
            return self.refuse(record, "Secret", step.refuse, f"expected the secret of {step.column}, found another")

        return run

    def _do(self, step: Do) -> Ran:
        action = self.actions[step.name]
        copied = self._columns_of(step.name)

        def run(record: Record) -> str | None:
            record.allowed = step.fires
            answer = action(record) or {}
            record.allowed = ()
            record.found[step.name] = answer
            for target, column in copied:
                record.values[target] = answer[column]
            return None

        return run


def _first(rows: list[Row]) -> Row | None:
    return rows[0] if rows else None
