"""Where an install keeps its state, and the identity that it makes once."""

import os
import stat
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import fsm
from fsm import rooms
from fsm.rooms import HostedRoomError

ROOT = Path(fsm.__file__).parents[1]
KNOWN = "0f8fad5b-d9cb-469f-a165-70867728950e"
RACER = """
import sys, time
from pathlib import Path
from fsm.rooms import local_authority_gateway_id
Path(sys.argv[2]).touch()
while not Path(sys.argv[1]).exists():
    time.sleep(0.0005)
print(local_authority_gateway_id())
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that GATEWAY_HOME names, not made yet."""
    place = tmp_path / "home"
    monkeypatch.setenv("GATEWAY_HOME", str(place))
    return place


def test_the_place_of_the_database(home: Path) -> None:
    """The database is `state.db` in the directory that GATEWAY_HOME names; asking makes nothing."""
    assert rooms.default_db_path() == home / "state.db"
    assert not home.exists()


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_the_default_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    """Without GATEWAY_HOME the directory is `.gateway` in the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("GATEWAY_HOME", raising=False)
    else:
        monkeypatch.setenv("GATEWAY_HOME", value)
    assert rooms.default_db_path() == tmp_path / ".gateway" / "state.db"
    assert rooms.local_authority_gateway_id().startswith("install:")
    assert (tmp_path / ".gateway" / "install_id").is_file()


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("~/mine", "mine/state.db"),
        ("~/mine/profiles/work", "mine/state.db"),
        ("~/mine/profiles/work/", "mine/state.db"),
        ("~/mine/profiles", "mine/profiles/state.db"),
        ("~/mine/profiles/work/deep", "mine/profiles/work/deep/state.db"),
        ("~/mine/profilesx/work", "mine/profilesx/work/state.db"),
    ],
)
def test_a_home_among_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, place: str) -> None:
    """A home directly in a folder `profiles` stands for the directory above it, where all profiles share one state."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GATEWAY_HOME", value)
    assert rooms.default_db_path() == tmp_path / place
    rooms.local_authority_gateway_id()
    assert (tmp_path / place).with_name("install_id").is_file()


def test_profiles_have_one_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two profiles of one install are one gateway; another install is another."""
    found = []
    for home in ("a/profiles/work", "a/profiles/play", "a", "b"):
        monkeypatch.setenv("GATEWAY_HOME", str(tmp_path / home))
        found.append(rooms.local_authority_gateway_id())
    assert found[0] == found[1] == found[2] != found[3]


def test_an_identity_is_made_once(home: Path) -> None:
    """The first call makes a random UUID in a file for its owner alone, and every later one reads it."""
    first = rooms.local_authority_gateway_id()
    install = uuid.UUID(first.removeprefix("install:"))
    assert first == f"install:{install}"
    assert install.version == 4
    assert rooms.local_authority_gateway_id() == first
    assert [path.name for path in home.iterdir()] == ["install_id"]
    assert (home / "install_id").read_text().strip() == str(install)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_file_is_its_owners_alone(home: Path, mask: int) -> None:
    """The file has mode 0600, whatever the process lets other files have."""
    home.mkdir()
    before = os.umask(mask)
    try:
        rooms.local_authority_gateway_id()
    finally:
        os.umask(before)
    assert stat.S_IMODE((home / "install_id").stat().st_mode) == 0o600


@pytest.mark.parametrize("written", [KNOWN, f"{KNOWN}\n", f" {KNOWN} \r\n"])
def test_a_file_that_is_there_counts(home: Path, written: str) -> None:
    """An identity that was stored before is kept, white space around it aside, and its file not written."""
    home.mkdir()
    file = home / "install_id"
    file.write_text(written, encoding="ascii", newline="")
    assert rooms.local_authority_gateway_id() == f"install:{KNOWN}"
    assert file.read_bytes() == written.encode()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\n",
        b"no uuid",
        KNOWN[:-1].encode(),
        f"{KNOWN}0".encode(),
        f"{KNOWN} {KNOWN}".encode(),
        b"\xff\xfe",
        b"\0",
    ],
)
def test_a_damaged_file(home: Path, damage: bytes) -> None:
    """A file that holds no UUID is refused and left as it was: a gateway must not change who it is in silence."""
    home.mkdir()
    file = home / "install_id"
    file.write_bytes(damage)
    with pytest.raises(HostedRoomError) as refusal:
        rooms.local_authority_gateway_id()
    assert type(refusal.value) is HostedRoomError
    assert file.read_bytes() == damage


def test_a_directory_in_its_place(home: Path) -> None:
    """A directory where the file belongs is refused."""
    (home / "install_id").mkdir(parents=True)
    with pytest.raises(HostedRoomError):
        rooms.local_authority_gateway_id()


def test_a_link_that_leads_nowhere(home: Path) -> None:
    """A link to a missing file is refused, and nothing is left behind."""
    home.mkdir()
    (home / "install_id").symlink_to(home / "missing")
    with pytest.raises(HostedRoomError):
        rooms.local_authority_gateway_id()
    assert [path.name for path in home.iterdir()] == ["install_id"]


def test_a_file_in_place_of_the_home(home: Path) -> None:
    """A home that is a file is refused."""
    home.write_text("not a directory", encoding="ascii")
    with pytest.raises(HostedRoomError):
        rooms.local_authority_gateway_id()


def test_eight_processes_make_one_identity(home: Path, tmp_path: Path) -> None:
    """Eight processes that start together agree on one identity, and leave one file and nothing else."""
    go = tmp_path / "go"
    ready = [tmp_path / f"ready-{number}" for number in range(8)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, go, path],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for path in ready
    ]
    try:
        deadline = time.monotonic() + 60
        while not all(path.exists() for path in ready) and time.monotonic() < deadline:
            time.sleep(0.005)
        go.touch()
        answers = [process.communicate(timeout=60)[0].strip() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert len(set(answers)) == 1
    assert answers[0] == rooms.local_authority_gateway_id()
    assert [path.name for path in home.iterdir()] == ["install_id"]
    assert stat.S_IMODE((home / "install_id").stat().st_mode) == 0o600


def test_an_identity_is_an_authority(home: Path, tmp_path: Path) -> None:
    """The identity can be the authority of a room in the database beside it."""
    gateway = rooms.local_authority_gateway_id()
    database = fsm.open_database(tmp_path / "other.db", synchronous="normal")
    view = rooms.create_room(database, room_id="room", name="Room", members=[], authority_gateway_id=gateway)
    database.close()
    assert view["authority_gateway_id"] == gateway
    assert home.is_dir()
