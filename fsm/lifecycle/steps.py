"""Steps: what a trigger does before, around and after its write, in the order that its callers rely on."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from attrs import Factory, field, frozen
from attrs.converters import optional

from fsm.errors import DefinitionError, LostFenceError, RefusedError
from fsm.lifecycle.terms import Arg, Condition, Conditions, Operand, conjunction
from storage import Table

if TYPE_CHECKING:
    from fsm.lifecycle.structure import State

__all__ = [
    "DECLINE",
    "Authority",
    "Check",
    "Decline",
    "Do",
    "Fence",
    "Load",
    "Look",
    "Refusal",
    "Replay",
    "Secret",
    "Source",
    "Step",
    "Write",
]


class Decline(Enum):
    """A step that does not hold ends the call with an outcome that says so, instead of an error."""

    DECLINE = "declines"


DECLINE: Final = Decline.DECLINE


@frozen
class Refusal:
    """What a step that does not hold raises: an error class, and the advice that ends the error's message."""

    error: Callable[[str], Exception]
    remedy: str

    @property
    def name(self) -> str:
        """The name of the error class, as tables and diagrams show it."""
        return getattr(self.error, "__name__", type(self.error).__name__)


Otherwise = Refusal | Decline

_READ_AGAIN = "read the record again and decide on what it says now"
WRONG_STATE: Final = Refusal(RefusedError, _READ_AGAIN)
LOST_FENCE: Final = Refusal(LostFenceError, _READ_AGAIN)


def _terms(value: Condition | Conditions) -> Conditions:
    return conjunction(value)


@frozen
class Check:
    """Terms on the row that a step has read, and what happens where they do not hold."""

    terms: Conditions = field(converter=_terms)
    refuse: Otherwise


@frozen(eq=False)
class Authority:
    """Another row that must stand as the caller believes: read under the write transaction's lock, and compared.

    `shared` where many transactions stand on the row at once and it is hardly ever written.
    """

    name: str
    table: Table
    key: Mapping[str, Operand]
    missing: Otherwise
    checks: tuple[Check, ...] = ()
    shared: bool = False


@frozen(eq=False)
class Load:
    """Read the record, by the caller's key or `by` the key that the Look of this name found.

    Without `missing` the record may be absent; then its state is `new` or the state that no row stands for. Later steps
    find its columns as `Of("record", ...)`, and those of the joined table as `Of("joined", ...)`.
    """

    missing: Otherwise | None = None
    checks: tuple[Check, ...] = ()
    by: str | None = None


@frozen(eq=False)
class Replay:
    """Terms that make the call an exact retry, answered with what is stored; `conflict` terms refuse a near miss.

    Judged on the record, or on the row that the step named `on` found: a Look's, or the `joined` row.
    """

    terms: Conditions = field(converter=_terms)
    conflict: Conditions | None = field(default=None, converter=optional(_terms))
    refuse: Refusal | None = None
    on: str | None = None


@frozen(eq=False)
class Fence:
    """Terms on the record's own row: compared when it is read, and again by the write's WHERE."""

    terms: Conditions = field(converter=_terms)
    refuse: Otherwise = LOST_FENCE


@frozen(eq=False)
class Source:
    """The record must be in a state that the trigger leaves; `per` names other refusals for some states."""

    refuse: Otherwise = WRONG_STATE
    per: Mapping["State", Otherwise] = field(factory=dict)


@frozen(eq=False)
class Look:
    """One SELECT under the write transaction's lock: the first row in `order`, or in column `count` how many there are.

    No row reads as a row of nulls, so that "there is none" is a term like any other.
    """

    name: str
    table: Table
    where: Conditions = field(converter=_terms)
    order: tuple[str, ...] = ()
    count: bool = False
    checks: tuple[Check, ...] = ()


def _argument(value: Arg) -> Arg:
    given: object = value
    if not isinstance(given, Arg):
        raise DefinitionError(f"a secret is proven by an argument, not by a {type(given).__name__}")
    return given


@frozen(eq=False)
class Secret:
    """A column must equal an argument; compared in constant time, and never shown or sent to the database."""

    column: str
    argument: Arg = field(converter=_argument)
    refuse: Refusal


@frozen(eq=False)
class Do:
    """The operation's own code at this place in the transaction, bound by name when the machine is built.

    It may write rows that have no lifecycle and fire the triggers that `fires` names as (lifecycle, trigger); it never
    writes a state. What it answers is found under its name by the steps after it, and what it wrote is undone where the
    call then ends without a move. One that is declared `reads_only` changes no row and needs no undoing: the machine
    refuses it with DefinitionError where it did change one, and its declaration where it also fires. A `hook` runs only
    where the caller has handed something over under its name.
    """

    name: str
    meaning: str
    fires: tuple[tuple[str, str], ...] = ()
    reads_only: bool = False
    hook: bool = False


@frozen(eq=False)
class Write:
    """The fenced statement: INSERT, UPDATE or DELETE as the edge's source and dest say.

    `stale` where it changed anything but one row; `unmatched`, by default the same, where no edge from this state has a
    guard that holds.
    """

    stale: Otherwise = LOST_FENCE
    unmatched: Otherwise = field(default=Factory(lambda self: self.stale, takes_self=True))


Step = Authority | Load | Replay | Fence | Source | Look | Secret | Do | Write
Kind = Literal["fire", "sweep", "time"]
