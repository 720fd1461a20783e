"""The model as JSON: nothing lost, always the same, and its hash is of exactly what stands beside it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields

import diagrams
from diagrams import Diagram, DiagramEdge, DiagramOutcome, DiagramState, DiagramStep, DiagramTrigger, describe
from diagrams.export import export
from fsm.lifecycle import Lifecycle
from fsm.lifecycles import DRIVER_TASK, LIFECYCLES

AGAIN = "from diagrams.export import export; from diagrams import describe; from fsm.lifecycles import LIFECYCLES; "
PRINT = "print(*(export(describe(each)) for each in LIFECYCLES), sep='', end='')"


def read(model: Diagram) -> dict[str, Any]:
    """Return the export as a program reads it."""
    found: dict[str, Any] = json.loads(export(model))
    return found


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda each: str(each.name))
def test_a_program_reads_back_the_very_model(lifecycle: Lifecycle) -> None:
    """States, triggers, steps and edges in their order, field by field: nothing is left out."""
    model = describe(lifecycle)
    found = read(model)
    states = tuple(DiagramState(**each) for each in found.pop("states"))
    triggers = tuple(map(_trigger, found.pop("triggers")))
    assert found.pop("hash").startswith("sha256:")
    assert Diagram(**{**found, "key": tuple(found["key"])}, states=states, triggers=triggers) == model


def _trigger(found: dict[str, Any]) -> DiagramTrigger:
    steps = tuple(
        DiagramStep(each["kind"], each["text"], tuple(DiagramOutcome(**outcome) for outcome in each["outcomes"]))
        for each in found["steps"]
    )
    return DiagramTrigger(**{**found, "steps": steps, "edges": tuple(map(_edge, found["edges"]))})


def _edge(found: dict[str, Any]) -> DiagramEdge:
    lists = {name: tuple(found[name]) for name in ("fence", "fence_columns")}
    return DiagramEdge(**{**found, **lists, "writes": tuple(map(tuple, found["writes"]))})


def test_the_keys_are_the_fields_of_the_model_and_the_hash() -> None:
    """What the model gains, the export gains."""
    assert set(read(describe(DRIVER_TASK))) == {each.name for each in fields(Diagram)} | {"hash"}


def test_the_hash_is_of_the_canonical_text_without_it() -> None:
    """A reader checks it with a JSON library and SHA-256 alone, as the docstring says."""
    found = read(describe(DRIVER_TASK))
    said = found.pop("hash")
    rest = json.dumps(found, sort_keys=True, separators=(",", ":")).encode("ascii")
    assert said == f"sha256:{hashlib.sha256(rest).hexdigest()}"


def test_the_text_is_canonical() -> None:
    """One line of ASCII with sorted keys and no spaces between: writing it again gives the same text."""
    text = export(describe(DRIVER_TASK))
    assert text.isascii()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) + "\n"


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_every_run_writes_the_same(seed: str) -> None:
    """Nothing depends on the order of a set or on where a value stands in memory."""
    root = str(Path(diagrams.__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
    told = subprocess.run(
        [sys.executable, "-c", AGAIN + PRINT], capture_output=True, text=True, check=True, env=environment
    )
    assert told.stdout == "".join(export(describe(each)) for each in LIFECYCLES)


@pytest.mark.parametrize("changed", [{"meaning": "another"}, {"joined": "t"}, {"key": ("id",)}, {"triggers": ()}])
def test_any_change_of_the_model_changes_the_hash(changed: dict[str, Any]) -> None:
    """Two hashes are equal only where the lifecycles are."""
    model = describe(DRIVER_TASK)
    assert read(evolve(model, **changed))["hash"] != read(model)["hash"]


def test_any_text_at_all_is_exported() -> None:
    """Names of a declaration may hold quotes, other scripts and even lone surrogates."""
    odd = 'a"b\\\n\N{SNOWMAN}\ud800'
    model = Diagram(odd, odd, odd, (odd,), (DiagramState(odd, odd),))
    assert read(model)["states"][0]["name"] == odd
