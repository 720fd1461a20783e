"""The vocabulary: what a declaration is written in. Pure data; nothing here runs a transition or knows an engine.

`terms` compare, `steps` order what a trigger does, `structure` holds states, edges and triggers, `declaration` the
lifecycle itself, `checks` what a declaration must hold.
"""

from fsm.lifecycle.declaration import Lifecycle
from fsm.lifecycle.steps import (
    DECLINE,
    Authority,
    Check,
    Do,
    Fence,
    Load,
    Look,
    Refusal,
    Replay,
    Secret,
    Source,
    Step,
    Write,
)
from fsm.lifecycle.structure import (
    GONE,
    NEW,
    Edge,
    Greater,
    Mark,
    Plus,
    State,
    Trigger,
    Writes,
    among,
    choice,
    edges,
    stored,
)
from fsm.lifecycle.terms import NOW, Arg, Column, Condition, Conditions, Not, Of, Term, conjunction, given

__all__ = [
    "DECLINE",
    "GONE",
    "NEW",
    "NOW",
    "Arg",
    "Authority",
    "Check",
    "Column",
    "Condition",
    "Conditions",
    "Do",
    "Edge",
    "Fence",
    "Greater",
    "Lifecycle",
    "Load",
    "Look",
    "Mark",
    "Not",
    "Of",
    "Plus",
    "Refusal",
    "Replay",
    "Secret",
    "Source",
    "State",
    "Step",
    "Term",
    "Trigger",
    "Write",
    "Writes",
    "among",
    "choice",
    "conjunction",
    "edges",
    "given",
    "stored",
]
