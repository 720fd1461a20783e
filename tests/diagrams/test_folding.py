"""Folding: a label in lines, which together are the label."""

from hypothesis import given as drawn
from hypothesis import strategies as st

from diagrams.render.escape import folded


@drawn(st.text("ab ,(and)", max_size=200), st.integers(1, 60))
def test_the_lines_together_are_the_text(text: str, width: int) -> None:
    """Each break stands for one space, and no line is empty"""
    lines = folded(text, width)
    assert " ".join(lines) == text
    assert all(lines) or text == ""


@drawn(st.lists(st.text("abc_", min_size=1, max_size=20), min_size=1, max_size=30))
def test_a_list_is_broken_after_commas(names: list[str]) -> None:
    """Lines of a list keep the width where its names do, and end between two names"""
    lines = folded(", ".join(names), 20)
    assert all(line.endswith(",") for line in lines[:-1])
    assert all(len(line) <= max(20, len(line.split(", ")[0])) for line in lines)


def test_a_condition_stays_in_one_piece() -> None:
    """A comparison is not torn apart, though its line grows longer than asked for"""
    text = "run_process_generation = given.process_generation and run_lease_generation = given.lease_generation"
    assert folded(text, 32) == (
        "run_process_generation = given.process_generation",
        "and run_lease_generation = given.lease_generation",
    )


def test_words_without_commas_are_broken_at_spaces() -> None:
    """Without a better place any space will do, and for a short rest none; a long word is never broken"""
    assert folded("one two three four five six seven eight", 12) == ("one two", "three four", "five six seven eight")
    assert folded("x" * 100, 12) == ("x" * 100,)
