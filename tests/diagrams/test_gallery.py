"""The gallery: the committed files are what the declarations render to, and a check says which are not."""

from pathlib import Path

import pytest

from diagrams import GALLERY, check_gallery, render_gallery, write_gallery, write_pictures
from diagrams import __main__ as command
from fsm.lifecycles import LIFECYCLES

FILES = render_gallery(LIFECYCLES)
PICTURES = {f"{lifecycle.name}.svg" for lifecycle in LIFECYCLES}


def test_the_committed_gallery_is_fresh() -> None:
    """Whoever changes a declaration commits what it renders to"""
    assert check_gallery(FILES, GALLERY) == ()


def test_the_gallery_has_a_page_and_a_diagram_for_each_lifecycle() -> None:
    """No lifecycle is forgotten, and the index links to each"""
    expected = {f"{lifecycle.name}{suffix}" for lifecycle in LIFECYCLES for suffix in (".md", ".mmd", ".dot", ".puml")}
    assert set(FILES) == {"README.md", *expected}
    for lifecycle in LIFECYCLES:
        assert f"({lifecycle.name}.md)" in FILES["README.md"]
        assert FILES[f"{lifecycle.name}.mmd"].partition("\n")[2] in FILES[f"{lifecycle.name}.md"]


def test_what_was_written_is_fresh(tmp_path: Path) -> None:
    """Writing is the remedy that the check names"""
    write_gallery(FILES, tmp_path / "made")
    assert check_gallery(FILES, tmp_path / "made") == ()


def test_each_stale_missing_or_superfluous_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check exits with 1 and gives each file one line that ends with the remedy"""
    write_gallery(FILES, tmp_path)
    write_pictures(LIFECYCLES, tmp_path)
    (tmp_path / "driver_lease.mmd").write_text("edited\n")
    (tmp_path / "driver_task.md").unlink()
    (tmp_path / "retired.mmd").write_text(FILES["driver_lease.mmd"])
    (tmp_path / "notes.md").write_text("mine\n")
    assert command.main(["--check", "--output", str(tmp_path)]) == 1
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"{tmp_path / 'driver_lease.mmd'} is stale; run make diagrams",
        f"{tmp_path / 'driver_task.md'} is missing; run make diagrams",
        f"{tmp_path / 'notes.md'} is superfluous; delete it, for make diagrams did not write it",
        f"{tmp_path / 'retired.mmd'} is superfluous; run make diagrams",
    ]


def test_writing_deletes_only_what_it_once_wrote(tmp_path: Path) -> None:
    """A file that somebody put there stays; one of a lifecycle that is no more goes"""
    write_gallery({**FILES, "retired.mmd": FILES["driver_lease.mmd"]}, tmp_path)
    (tmp_path / "notes.md").write_text("mine\n")
    assert command.main(["--output", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, *PICTURES, "notes.md"}


def test_a_missing_directory_is_all_missing(tmp_path: Path) -> None:
    """A gallery that was never written names every file"""
    assert len(check_gallery(FILES, tmp_path / "never")) == len(FILES)


def test_line_ends_are_compared_too(tmp_path: Path) -> None:
    """A file that a tool rewrote with other line ends is stale: it is compared byte by byte"""
    write_gallery(FILES, tmp_path)
    (tmp_path / "README.md").write_bytes(FILES["README.md"].replace("\n", "\r\n").encode())
    assert len(check_gallery(FILES, tmp_path)) == 1


def test_an_installation_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a checkout around it the package's own files belong to the installer; another directory may be written"""
    monkeypatch.setattr(command, "_CHECKOUT", tmp_path / "pyproject.toml")
    monkeypatch.setattr(command, "GALLERY", tmp_path / "gallery")
    (tmp_path / "README.md").write_text("a page", encoding="utf-8")
    monkeypatch.setattr(command, "README", tmp_path / "README.md")
    assert command.main([]) == 2
    assert "--output DIR" in capsys.readouterr().err
    assert not (tmp_path / "gallery").exists()
    assert command.main(["--output", str(tmp_path / "else")]) == 0
    (tmp_path / "pyproject.toml").touch()
    assert command.main([]) == 0
    assert command.main(["--check"]) == 0
