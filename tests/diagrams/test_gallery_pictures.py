"""The gallery's pictures: kept while they show the declaration, drawn anew when not, and never edited unseen."""

import sys
from pathlib import Path

import pytest
from attrs import evolve

from diagrams import GALLERY, check_pictures, write_pictures
from diagrams import __main__ as command
from fsm.lifecycles import DRIVER_LEASE, LIFECYCLES
from tests.diagrams.toys import TOY, grown


def test_the_committed_pictures_are_fresh() -> None:
    """Whoever changes a declaration commits its picture too"""
    assert check_pictures(LIFECYCLES, GALLERY) == ()


def test_a_picture_of_an_older_declaration_is_stale_until_it_is_drawn_anew(tmp_path: Path) -> None:
    """A picture names the text that it was drawn from, and another declaration gives another text"""
    write_pictures((TOY,), tmp_path)
    assert check_pictures((TOY,), tmp_path) == ()
    assert check_pictures((grown(),), tmp_path) == (f"{tmp_path / 'toy.svg'} is stale; run make diagrams",)
    write_pictures((grown(),), tmp_path)
    assert check_pictures((grown(),), tmp_path) == ()


@pytest.mark.parametrize(("before", "after"), [(b"ready", b"steady"), (b"\n", b"\r\n"), (b"sha256:", b"sha256:0")])
def test_an_edited_picture_is_stale(tmp_path: Path, before: bytes, after: bytes) -> None:
    """A picture names its own digest, so that an edit by hand is noticed, and the next run mends it"""
    write_pictures((TOY,), tmp_path)
    path = tmp_path / "toy.svg"
    path.write_bytes(path.read_bytes().replace(before, after))
    assert check_pictures((TOY,), tmp_path) != ()
    write_pictures((TOY,), tmp_path)
    assert check_pictures((TOY,), tmp_path) == ()


def test_a_fresh_picture_is_kept_and_needs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing has changed, no Graphviz is needed, and another version of it changes no file"""
    write_pictures(LIFECYCLES, tmp_path)
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert command.main(["--output", str(tmp_path)]) == 0
    assert command.main(["--check", "--output", str(tmp_path)]) == 0


def test_without_the_extra_everything_else_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command writes the texts, says in one line what the pictures need, and exits with 2"""
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert command.main(["--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "a picture needs Graphviz: pip install 'gateway-fsm[diagrams]'\n"
    assert (tmp_path / "driver_task.dot").is_file()


def test_a_superfluous_picture_goes_only_if_it_was_drawn_here(tmp_path: Path) -> None:
    """The picture of a lifecycle that is no more is deleted; a drawing that somebody put there stays"""
    write_pictures((TOY, evolve(DRIVER_LEASE, name="retired")), tmp_path)
    (tmp_path / "mine.svg").write_text("<svg/>")
    assert check_pictures((TOY,), tmp_path) == (
        f"{tmp_path / 'mine.svg'} is superfluous; delete it, for make diagrams did not write it",
        f"{tmp_path / 'retired.svg'} is superfluous; run make diagrams",
    )
    write_pictures((TOY,), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"toy.svg", "mine.svg"}
