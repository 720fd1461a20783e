"""Small lifecycles to show, texts that try to become markup, and a strategy that draws whole declarations."""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from attrs import evolve
from hypothesis import strategies as st

from diagrams import BEGINNING, END, Diagram, DiagramEdge, DiagramOutcome, DiagramState, DiagramStep, DiagramTrigger
from fsm.errors import RefusedError
from fsm.lifecycle import (
    GONE,
    NEW,
    NOW,
    Arg,
    Authority,
    Check,
    Do,
    Edge,
    Fence,
    Lifecycle,
    Load,
    Look,
    Not,
    Refusal,
    Replay,
    Secret,
    Source,
    State,
    Step,
    Term,
    Trigger,
    Write,
    edges,
    given,
    stored,
)
from storage import Column, Table

KEYWORDS: Final = ("end", "state", "note", "class", "default", "graph", "node", "direction", "style", "as", "fork")
HOSTILE: Final = (
    *KEYWORDS,
    "",
    " ",
    " x  y ",
    "a: b; c # d",
    'a "quoted" name',
    "a < b > c <b>bold</b>",
    "a | b || c",
    "back \\ slash \\",
    "line\nbreak\r\nand\ttab",
    "</script><script>alert(1)</script>",
    "-->",
    "[*]",
    "{ } [ ] ( )",
    "%%{init: {'theme': 'dark'}}%%",
    "%% remark",
    "#35;",
    "&amp; &#60;",
    "`code` ```fence```",
    "**bold** _em_ __strong__ ~~gone~~ $x$",
    "1. list",
    "- list",
    "+ list",
    "# heading",
    "www.example.com http://example.com a@b.example :smile:",
    "fa:fa-car",
    "<<fork>>",
    ":::taken",
    "![x](y) [x](y)",
    "--- ===",
    "état zustand 状態 🚦",
    "حالة نهائية",
    "מצב <סופי>",
    "O'Neil, Nowell",
)
UNSHOWABLE: Final = ("nul \0 bell \a", "lone \ud800 surrogate", "turned \u202e round", "isolated \u2067 text \u2069")

TABLE: Final = Table(
    "toys",
    (
        Column("toy_id", "TEXT"),
        Column("status", "TEXT"),
        Column("outcome", "TEXT", nullable=True),
        Column("payload", "TEXT", nullable=True),
        Column("generation", "INTEGER", default=0),
        Column("token", "TEXT", nullable=True),
        Column("expires_at", "REAL", nullable=True),
    ),
    primary_key=("toy_id",),
)
BOXES: Final = Table("boxes", (Column("box_id", "TEXT"), Column("size", "INTEGER")), ("box_id",))


class BoxError(RefusedError):
    """The box is not as expected."""


class TokenError(RefusedError):
    """The token is another."""


class OtherPayloadError(RefusedError):
    """The payload is another."""


class ExhibitError(RefusedError):
    """Whatever else does not hold."""


READY: Final = stored("status", "ready", "it waits on the shelf", requires=Term("outcome", "is null"))
WON: Final = State(
    "won", "played to a good end", (Term("status", "=", "over"), Term("outcome", "=", "won")), final=True
)
LOST: Final = State(
    "lost", "played to a bad end", (Term("status", "=", "over"), Term("outcome", "=", "lost")), final=True
)
OTHER: Final = Refusal(ExhibitError, "look again")
FOR_GOOD: Final = Refusal(BoxError, "it is lost")

MAKE: Final = Trigger("make", "a toy is made", Load(), Write(), edges=edges(NEW, READY, writes={"generation": 0}))
IMPORT: Final = Trigger("adopt", "a toy comes from elsewhere", Load(), Write(), edges=edges(NEW, WON), imports=True)
PLAY: Final = Trigger(
    "play",
    "a child plays",
    Authority(
        "box", BOXES, {"box_id": Arg("box_id")}, Refusal(BoxError, "find it"), (Check(Term("size", ">", 3), OTHER),)
    ),
    Load(OTHER),
    Secret("token", Arg("token"), Refusal(TokenError, "ask for it")),
    Replay(given("payload"), conflict=Not(Term("payload", "is null")), refuse=Refusal(OtherPayloadError, "read it")),
    Fence(given("generation"), OTHER),
    Source(OTHER, per={LOST: FOR_GOOD}),
    Look("first", BOXES, given("box_id"), order=("size", "box_id"), checks=(Check(Term("size", "<", 9), OTHER),)),
    Do("wind_up", "the spring is wound", fires=(("toy", "sweep_up"),)),
    Write(OTHER, unmatched=OTHER),
    edges=(
        edges(READY, WON, Term(Arg("score"), ">", 10), {"payload": Arg("payload")}),
        edges(READY, LOST, Term(Arg("score"), "<=", 10), {"payload": Arg("payload")}),
    ),
)
SWEEP_UP: Final = Trigger(
    "sweep_up",
    "the day is over",
    kind="sweep",
    over=Term("expires_at", "<=", NOW),
    edges=edges((READY, WON, LOST), GONE),
)
TOY: Final = Lifecycle("toy", "a toy", TABLE, (READY, WON, LOST), (MAKE, IMPORT, PLAY, SWEEP_UP))


def grown() -> Lifecycle:
    """Return the toy lifecycle with one more state and the edges to and from it."""
    lent = stored("status", "lent", "another child has it")
    lend = Trigger("lend", "a friend asks", Load(OTHER), Write(OTHER), edges=edges(READY, lent))
    fetch = Trigger("fetch", "it comes back", Load(OTHER), Write(OTHER), edges=edges(lent, READY))
    return evolve(TOY, states=(*TOY.states, lent), triggers=(*TOY.triggers, lend, fetch))


def hostile(*names: str) -> Diagram:
    """Return a model in which everything that can hold a text holds the names, each in its turn."""
    states = tuple(DiagramState(name, name, name == names[-1], row=True, holds=name, requires=name) for name in names)
    ways = [(BEGINNING, names[0]), *pairwise(names), (names[-1], END)]
    triggers = tuple(_hostile_trigger(*way, text) for way, text in zip(ways, (*names, names[0]), strict=True))
    return Diagram(names[0], names[-1], names[0], names, states, triggers, joined=names[-1])


def _hostile_trigger(source: str, dest: str, text: str) -> DiagramTrigger:
    edge = DiagramEdge(text, source, dest, "fire", text, ((text, text),), (text,), (text,) if text else ())
    outcomes = (DiagramOutcome(text, "raises", text, text, text), DiagramOutcome(text, "declines"))
    return DiagramTrigger(text, text, "fire", text, (DiagramStep(text, text, outcomes),), (edge,))


# --- drawn declarations

WORDS: Final = (*KEYWORDS, "open", "held", "s0", "s1", "x0", "g0", "sweep_x", "time")
_TEXTS = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=("Cc", "Cs", "Cf")), max_size=12)


@st.composite
def lifecycles(draw: Callable[[st.SearchStrategy[object]], object]) -> Lifecycle:
    """Draw a lifecycle: a chain of states, so that each is reached and left, and more edges of every kind across it."""
    names = draw(st.lists(st.sampled_from(WORDS), min_size=2, max_size=6, unique=True))
    assert isinstance(names, list)
    shared = draw(st.integers(0, len(names)))
    assert isinstance(shared, int)
    states = tuple(_state(name, index, shared, final=index == len(names) - 1) for index, name in enumerate(names))
    chain = [_fired(f"chain_{i}", edges(*pair)) for i, pair in enumerate(pairwise(states))]
    begin = _fired("begin", edges(NEW, states[0]))
    extra = [_extra(draw, index, states) for index in range(draw(st.integers(0, 5)))]  # type: ignore[call-overload]  # hypothesis types `draw` by its strategy
    return Lifecycle("drawn", str(draw(_TEXTS)), TABLE, states, (begin, *chain, *extra))


def _state(name: str, index: int, shared: int, *, final: bool) -> State:
    """Return a state that shares its stored status with the others before `shared`, or has one of its own."""
    terms = (Term("status", "=", "common" if index < shared else f"own {name}"), Term("outcome", "=", name))
    return State(name, f"it is {name}", terms, final=final)


def _fired(name: str, ways: tuple[Edge, ...], *steps: Step) -> Trigger:
    return Trigger(name, "something happens", Load(), *steps, Write(), edges=ways)


def _extra(draw: Callable[[st.SearchStrategy[object]], object], index: int, states: tuple[State, ...]) -> Trigger:
    source, dest = draw(st.sampled_from(states[:-1])), draw(st.sampled_from((*states, GONE)))
    guard = (Term("payload", "=", str(draw(_TEXTS))),) if draw(st.booleans()) else ()
    kind = draw(st.sampled_from(("fire", "fenced", "sweep", "time", "import")))
    name = f"extra_{index}"
    assert isinstance(source, State)
    if kind == "import":
        return Trigger(
            name, "it comes in", Load(), Write(), edges=(Edge(NEW, states[index % len(states)], guard),), imports=True
        )
    ways = (Edge(source, dest, guard),)  # type: ignore[arg-type]  # drawn from states and a mark
    if kind == "sweep":
        return Trigger(name, "many move", kind="sweep", over=given("generation"), edges=ways)
    if kind == "time":
        return Trigger(name, "the clock moves it", kind="time", edges=ways)
    return _fired(name, ways, *((Fence(given("generation", "payload")),) if kind == "fenced" else ()))
