"""The house style, where a linter cannot see it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsm.lifecycles import LIFECYCLES

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for package in ("fsm", "storage", "diagrams") for path in (ROOT / package).rglob("*.py"))
ALL = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))]
STATES = frozenset(state.name for lifecycle in LIFECYCLES for state in lifecycle.states)
SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|CHECK)\b")


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def long_functions(source: str, limit: int = 60) -> list[str]:
    """Return the functions of more than so many lines."""
    tree = ast.parse(source)
    return [
        f"{each.name} ({size})"
        for each in _functions(tree)
        if (size := (each.end_lineno or 0) - each.lineno + 1) > limit
    ]


def undocumented(source: str) -> list[str]:
    """Return the public names without a docstring: the module, its classes, functions and methods."""
    tree = ast.parse(source)
    found = [] if ast.get_docstring(tree) else ["module"]
    return found + list(_undocumented(tree.body))


def _undocumented(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield node.name
            if isinstance(node, ast.ClassDef):
                yield from _undocumented(node.body)


def state_names(source: str) -> list[str]:
    """Return where a state's name is compared, written, passed, or stands in SQL text; keys of answers may have it."""
    tree = ast.parse(source)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    keys = {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            quoted = SQL.search(node.value) and any(f"'{state}'" in node.value for state in STATES)
            if quoted or (node.value in STATES and id(node) not in keys):
                found.append(f"line {node.lineno}: {node.value!r}")
    return found


@pytest.mark.parametrize("path", ALL, ids=_id)
def test_functions_and_files_stay_small(path: Path) -> None:
    """No function has over 60 lines, no file over 400."""
    source = path.read_text(encoding="utf-8")
    assert not long_functions(source)
    assert len(source.splitlines()) <= 400


@pytest.mark.parametrize("path", SOURCES, ids=_id)
def test_public_names_are_documented(path: Path) -> None:
    """Every module and every public class, function and method says what it does."""
    assert not undocumented(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [path for path in SOURCES if path.parent.name != "lifecycles"], ids=_id)
def test_no_state_is_named_outside_its_declaration(path: Path) -> None:
    """Outside fsm/lifecycles no state name is compared with or written to anything, and none stands in SQL text."""
    assert not state_names(path.read_text(encoding="utf-8"))


def test_the_checks_can_fail() -> None:
    """Each check of this file finds what it looks for."""
    assert long_functions("def f():\n" + "    x = 1\n" * 60) == ["f (61)"]
    assert undocumented("class A:\n    def b(self): ...\n") == ["module", "A", "b"]
    assert state_names("if row['status'] == 'running':\n    pass\n")
    assert state_names("row['status'] = 'running'\n")
    assert state_names("tx.execute(\"UPDATE t SET status = 'running'\")\n")
    assert state_names("f(status='running')\n")
    assert not state_names("'''running'''\nx = {'queued': []}\n")


def test_nothing_names_a_machine_or_a_registry() -> None:
    """No file names a path of the machine it was written on, or the host of a package registry."""
    suspicious = re.compile(r"(^|[^a-z])/wor[k]/|/tm[p]/bash|files\.pythonhoste[d]|index-ur[l]|\.\./share[d]")
    names = [*ALL, ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / "README.md", ROOT / ".ci" / "run"]
    assert not [_id(path) for path in names if suspicious.search(path.read_text(encoding="utf-8"))]


def test_the_top_level_is_what_was_agreed() -> None:
    """Nothing stands at the top level but what the project was given, what may join it, and what the README makes."""
    agreed = {
        "pyproject.toml",
        "fsm",
        "storage",
        "tests",
        "diagrams",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "Makefile",
    }
    made = {"dist", "build"}
    # Whoever has tried the README's examples has their databases here.
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith((".", "__")) and ".db" not in path.suffix}
    assert found - made <= agreed
