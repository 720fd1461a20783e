"""What a `postgresql://` URL says: read as PostgreSQL's own library reads it, but for what is the engine's own."""

import string
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

import storage
from storage.opening import _place
from storage.postgres.engine import ENGINE
from storage.postgres.target import Target, local_settings, parse_target

URL: Final = "postgresql://ann:s3cret@db.example:6543/gateway"
TEXT: Final = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NAME: Final = TEXT.filter(lambda name: 0 < len(name.encode()) <= 63)
BARE: Final = st.text(string.ascii_letters + string.digits + "_$é", min_size=1, max_size=12)
OWN: Final = ("search_path", "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "pool_size")


def parsed(url: str) -> Target:
    """Parse what must be a URL."""
    target = parse_target(url)
    assert target is not None
    return target


def settings(url: str) -> dict[str, str]:
    """Return the settings of a URL by their names."""
    return dict(parsed(url).settings)


def test_a_plain_url_has_every_default() -> None:
    """Nothing need be said: ten connections, three timeouts, the server's own schema, and a name for the operator."""
    target = parsed(URL)
    assert (target.pool_size, target.search_path, target.schema) == (10, (), None)
    assert dict(target.settings) == {
        "lock_timeout": "2s",
        "statement_timeout": "30s",
        "idle_in_transaction_session_timeout": "60s",
    }
    found = conninfo_to_dict(target.conninfo)
    assert (found["application_name"], found["connect_timeout"], found["client_encoding"]) == (
        "gateway-fsm",
        "10",
        "UTF8",
    )


@given(st.dictionaries(st.sampled_from(["password", "sslcert", "application_name", "passfile", "options"]), TEXT), NAME)
def test_everything_else_is_read_as_the_library_reads_it(parameters: dict[str, str], password: str) -> None:
    """Whatever stands in the URL beside the engine's own parameters reaches the library to the letter, wherever those
    stand; a plus sign is a plus sign
    """
    pairs = [f"{name}={quote(value, safe='+')}" for name, value in parameters.items() if name != "options"]
    plain = f"postgresql://ann:{quote(password, safe='?')}@h/d?{'&'.join(['sslmode=disable', *pairs])}"
    expected = {name: value for name, value in conninfo_to_dict(plain).items() if value}
    for url in (f"{plain}&search_path=x", plain.replace("?sslmode", "?pool_size=3&lock_timeout=1s&sslmode")):
        found = conninfo_to_dict(parsed(url).conninfo)
        assert {name: found[name] for name in expected} == expected


@given(st.lists(NAME, min_size=1, max_size=3), st.sampled_from(["", " ", "\t "]))
def test_quoted_names_of_a_search_path_are_taken_to_the_letter(names: list[str], space: str) -> None:
    """Commas, quotes, capitals and blanks within quotes belong to the name; around them blanks mean nothing."""
    path = ",".join(space + '"' + name.replace('"', '""') + '"' + space for name in names)
    target = parsed(f"{URL}?search_path={quote(path)}")
    assert target.search_path == tuple(names)
    assert target.schema == (None if names[0] == "$user" else names[0])


@given(st.lists(BARE, min_size=1, max_size=3))
def test_bare_names_of_a_search_path_are_lower_case(names: list[str]) -> None:
    """The server lowers the letters of ASCII and no others, and so does this."""
    lowered = tuple("".join(each.lower() if each in string.ascii_letters else each for each in name) for name in names)
    assert parsed(f"{URL}?search_path={quote(', '.join(names))}").search_path == lowered


@pytest.mark.parametrize(
    "spelled",
    [
        "search_path=x&lock_timeout=1s",
        "options=-c%20search_path%3Dx%20-c%20lock_timeout%3D1s",
        "options=-csearch_path%3Dx%20-clock_timeout%3D1s",
        "options=--search-path%3Dx%20--LOCK_TIMEOUT%3D1s",
        "options=-c%20search_path%3Dy%20-c%20lock_timeout%3D1s&search_path=x",
        "%73earch_path=x&lock_timeout=%31s",
        "search_path=y&search_path=x&lock_timeout=1s",
    ],
)
def test_the_settings_may_stand_in_the_url_or_in_its_options(spelled: str) -> None:
    """Each spelling of a setting means the same, and none of it is left for the session; the URL's own word counts."""
    target = parsed(f"{URL}?{spelled}")
    assert target.search_path == ("x",)
    assert dict(target.settings)["lock_timeout"] == "1s"
    assert "options" not in conninfo_to_dict(target.conninfo)


def test_other_options_are_left_as_they_stand() -> None:
    """What the engine does not set is the session's, escapes and all."""
    options = r"-c work_mem=8MB -c DateStyle=ISO,\ MDY --geqo=off -c search_path=a\ b -d"
    target = parse_target(f"{URL}?options={quote(options)}")
    assert target is None
    target = parsed(f"{URL}?options={quote(options.replace(' -c search_path=a' + chr(92) + ' b', ''))}")
    assert conninfo_to_dict(target.conninfo)["options"] == r"-c work_mem=8MB -c DateStyle=ISO,\ MDY --geqo=off -d"


@pytest.mark.parametrize(
    "url",
    [
        URL + "?unknown=1",
        URL + "?search_path",
        URL + "?&",
        URL + "?search_path=a,",
        URL + "?search_path=,a",
        URL + '?search_path="a',
        URL + '?search_path=a"b"',
        URL + "?search_path=a%20b",
        URL + '?search_path=""',
        URL + "?search_path=" + "x" * 64,
        URL + "?search_path=" + quote("é" * 32),
        URL + "?search_path=a%00",
        URL + "?search_path=%ff",
        URL + "?lock_timeout=1s%00",
        URL + "?pool_size=",
        URL + "?pool_size=0",
        URL + "?pool_size=-1",
        URL + "?pool_size=1.5",
        URL + "?pool_size=%D9%A1",
        URL + "?pool_size=" + "9" * 5000,
        "postgresql://ann:%ff@h/d",
        "postgresql://ann:%00@h/d",
        "postgresql://[::1/d",
    ],
)
def test_what_cannot_be_read_is_refused_without_a_word_of_it(url: str) -> None:
    """A URL that is none is refused before anything is connected to, by an error that repeats nothing of it."""
    assert parse_target(url) is None
    assert ENGINE.name_of(url) is None
    with pytest.raises(storage.StorageError, match="cannot be read") as caught:
        storage.open_database(url)
    assert "s3cret" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@given(NAME, st.sampled_from(["", "?password=", "?sslpassword="]))
def test_what_may_be_shown_holds_no_password(password: str, query: str) -> None:
    """The name under which a pool writes its log, and the representation of a target, hold no secret of the URL."""
    secret = f"s3cret{password}"
    url = f"postgresql://ann@h/d{query}{quote(secret)}" if query else f"postgresql://ann:{quote(secret, safe='')}@h/d"
    target = parsed(url)
    assert target.shown == "postgresql://h/d"
    assert "s3cret" not in repr(target)


def test_every_spelling_of_a_database_has_one_name() -> None:
    """Order, case of the scheme, what the library would add, and how much is pooled make no other database of it."""
    spelled = [
        "postgresql://ann@h/d?search_path=x&lock_timeout=1s",
        "postgres://ann@h:5432/d?lock_timeout=1s&search_path=X",
        'postgresql://h/d?search_path="x"&user=ann&lock_timeout=1s&pool_size=3',
        "postgresql:///?host=h&dbname=d&user=ann&options=-c%20search_path%3Dx%20-c%20lock_timeout%3D1s",
    ]
    assert len({ENGINE.name_of(url) for url in spelled}) == 1
    places = [*spelled, spelled[0].replace("postgresql", " PostgreSQL"), Path(spelled[0])]
    assert len({_place(str(url), ValueError).name for url in places}) == 1
    others = ["postgresql://ann@h/d?search_path=x", "postgresql://ann@h/e?search_path=x&lock_timeout=1s"]
    assert len({ENGINE.name_of(url) for url in (spelled[0], *others)}) == 3


@given(NAME, TEXT)
def test_settings_are_quoted(name: str, value: str) -> None:
    """Whatever stands in a URL ends within its quotes: it is no further statement of a transaction's beginning."""
    target = Target("", "", (name, "public"), (("lock_timeout", value),), 1)
    text = local_settings(target, synchronous="normal")
    quoted_name, quoted_value = name.replace('"', '""'), value.replace("'", "''")
    assert text == (
        f'SET LOCAL lock_timeout = \'{quoted_value}\'; SET LOCAL search_path = "{quoted_name}", "public"; '
        "SET LOCAL synchronous_commit = off"
    )
