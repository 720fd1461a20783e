"""The lifecycle: one declaration of the states and triggers of the rows of a table."""

from attrs import Factory, field, frozen

from fsm.lifecycle.checks import check
from fsm.lifecycle.structure import NEW, Root, State, Trigger
from fsm.lifecycle.terms import pinned
from storage import Table

__all__ = ["Lifecycle"]


@frozen(eq=False)
class Lifecycle:
    """A lifecycle of the rows of one table, declared once; wrong declarations are refused with `DefinitionError`.

    `joined` names a second table with the same key whose columns the terms of row-less states may use. `key` holds the
    columns by which callers name a record: the table's primary key, unless another of its unique keys is said. Where
    transactions run side by side, a trigger locks its rows table by table in `lock_order`, and the `root` in any case;
    one whose record has no root is serialised by its own key.
    """

    name: str
    meaning: str
    table: Table
    states: tuple[State, ...]
    triggers: tuple[Trigger, ...]
    joined: Table | None = None
    root: Root | None = None
    lock_order: tuple[Table, ...] = ()
    key: tuple[str, ...] = field(default=Factory(lambda self: self.table.primary_key, takes_self=True))

    def __attrs_post_init__(self) -> None:
        check(self)

    @property
    def key_is_given_by_the_database(self) -> bool:
        """Whether a new record's key is the next number of the table."""
        return self.table.autoincrement and self.key == self.table.primary_key

    def trigger(self, name: str) -> Trigger | None:
        """Return a trigger by name, or None."""
        return next((trigger for trigger in self.triggers if trigger.name == name), None)

    @property
    def final(self) -> tuple[State, ...]:
        """The states that end a record's life."""
        return tuple(state for state in self.states if state.final)

    @property
    def initial(self) -> tuple[State, ...]:
        """What the creating trigger reaches from `new`, or the row-less state that it leaves."""
        creating = next(trigger for trigger in self.triggers if trigger.creates)
        places = (edge.dest if edge.source is NEW else edge.source for edge in creating.edges)
        found = dict.fromkeys(place for place in places if isinstance(place, State) and self._begins(place, creating))
        return tuple(found)

    @staticmethod
    def _begins(state: State, creating: Trigger) -> bool:
        return not state.row or any(edge.source is NEW and edge.dest is state for edge in creating.edges)

    def stored_values(self) -> dict[str, tuple[str, ...]]:
        """Return each column that every row state pins to one text, with those texts: what a CHECK may accept."""
        rows = [pinned(state.terms) for state in self.states if state.row]
        texts = [{column: value for column, value in row.items() if isinstance(value, str)} for row in rows]
        shared = [column for column in texts[0] if all(column in row for row in texts)] if texts else []
        return {column: tuple(dict.fromkeys(row[column] for row in texts)) for column in shared}
