"""A lifecycle as it is shown: plain data that renderers format without knowing how a lifecycle is declared."""

from collections.abc import Iterator
from typing import Final, Literal

from attrs import field, frozen

from fsm.lifecycle import GONE, NEW

__all__ = [
    "BEGINNING",
    "END",
    "Diagram",
    "DiagramEdge",
    "DiagramKind",
    "DiagramOutcome",
    "DiagramState",
    "DiagramStep",
    "DiagramTrigger",
]

BEGINNING: Final = NEW.name
"""The mark that an edge leaves where the record did not exist; no state has this name."""

END: Final = GONE.name
"""The mark that an edge enters where the record exists no longer; no state has this name."""

DiagramKind = Literal["fire", "sweep", "time", "import"]


@frozen
class DiagramState:
    """A state: `holds` says when a record is in it, `requires` what such a record holds besides.

    `group` is the stored value that it shares with other states, or None. `row` is False where no row stands for it.
    """

    name: str
    meaning: str
    final: bool = False
    initial: bool = False
    row: bool = True
    holds: str = ""
    requires: str = ""
    group: str | None = None


@frozen
class DiagramEdge:
    """One way from a place to a place. An empty `guard` means that nothing more is asked.

    `writes` pairs each column with what it becomes; `fence` holds the terms that the write itself repeats.
    """

    trigger: str
    source: str
    dest: str
    kind: DiagramKind = "fire"
    guard: str = ""
    writes: tuple[tuple[str, str], ...] = ()
    fence: tuple[str, ...] = ()
    fence_columns: tuple[str, ...] = ()


@frozen
class DiagramOutcome:
    """What a step ends the call with, and when: `terms` follow on `when` where terms decide.

    `refusal` names the error class where it raises one, `remedy` is the advice that the error ends with.
    """

    when: str
    result: Literal["raises", "declines", "replays"]
    terms: str = ""
    refusal: str = ""
    remedy: str = ""


@frozen
class DiagramStep:
    """One step of a trigger: its kind, what it does, and each way in which it can end the call."""

    kind: str
    text: str
    outcomes: tuple[DiagramOutcome, ...] = ()


@frozen
class DiagramTrigger:
    """What moves a record: when, through which steps in order, along which edges. `over` is what a sweep selects."""

    name: str
    when: str
    kind: DiagramKind = "fire"
    over: str = ""
    steps: tuple[DiagramStep, ...] = ()
    edges: tuple[DiagramEdge, ...] = ()

    @property
    def replays(self) -> bool:
        """Whether an exact retry is answered with what is stored."""
        return any(outcome.result == "replays" for step in self.steps for outcome in step.outcomes)

    @property
    def refusals(self) -> tuple[str, ...]:
        """The error classes that its steps raise, each once, in the order in which they are met."""
        raised = (outcome.refusal for step in self.steps for outcome in step.outcomes if outcome.refusal)
        return tuple(dict.fromkeys(raised))

    @property
    def fence(self) -> tuple[str, ...]:
        """The terms that the writes of its edges repeat, each once."""
        return tuple(dict.fromkeys(term for edge in self.edges for term in edge.fence))


@frozen
class Diagram:
    """One lifecycle, ready to be shown: its states in the order of its declaration, its triggers with their edges."""

    name: str
    meaning: str
    table: str
    key: tuple[str, ...]
    states: tuple[DiagramState, ...]
    triggers: tuple[DiagramTrigger, ...] = field(default=())
    joined: str | None = None

    @property
    def edges(self) -> tuple[DiagramEdge, ...]:
        """Every edge, in the order of the triggers."""
        return tuple(edge for trigger in self.triggers for edge in trigger.edges)

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the states, in their order."""
        return tuple(state.name for state in self.states)

    def groups(self) -> Iterator[tuple[str | None, tuple[DiagramState, ...]]]:
        """Yield the states by the stored value that they share, in the order of each group's first state.

        States that share nothing come alone, under None.
        """
        seen: set[str] = set()
        for state in self.states:
            if state.group is None:
                yield None, (state,)
            elif state.group not in seen:
                seen.add(state.group)
                yield state.group, tuple(each for each in self.states if each.group == state.group)
