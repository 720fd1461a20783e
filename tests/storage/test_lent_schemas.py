"""What the tests lend each other on a server: a schema comes back empty and as the library made it, or not at all."""

import pytest

from fsm.rooms import create_room
from tests.engines import Engine, on_server

pytestmark = pytest.mark.engines("postgres")
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1"


def lent(engine: Engine) -> str:
    """Give back what was lent, and return the name of the schema that is lent next."""
    engine.dispose()
    return name_of(engine.empty())


def name_of(url: str) -> str:
    """Return the name of the schema that a URL leads to."""
    return url.rpartition("search_path=")[2].partition("&")[0]


def test_an_own_table_and_every_row_are_gone_when_a_schema_is_lent_again(engine: Engine) -> None:
    """What a test has stored, or has put beside the gateway's tables, no other test finds."""
    location = engine.empty()
    schema = name_of(location)
    before = on_server(TABLES, schema)
    db = engine.open(location)
    create_room(db, room_id="r", name="R", members=[], authority_gateway_id="gw")
    on_server(f"CREATE TABLE {schema}.notes (id serial PRIMARY KEY)")
    assert lent(engine) == schema
    assert on_server(TABLES, schema) == before
    assert on_server(f"SELECT * FROM {schema}.hosted_rooms") == []


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {}.hosted_rooms ADD COLUMN more text",
        "ALTER TABLE {}.hosted_rooms ALTER COLUMN name DROP NOT NULL",
        "ALTER TABLE {}.hosted_rooms DISABLE TRIGGER ALL",
        "CREATE INDEX ON {}.hosted_rooms (name)",
        "DROP TABLE {}.hosted_rooms CASCADE",
    ],
)
def test_a_schema_whose_tables_were_changed_is_not_lent_again(engine: Engine, change: str) -> None:
    """A table that is no longer as the library made it costs the whole schema."""
    schema = lent(engine)
    on_server(change.format(schema))
    assert lent(engine) != schema
    assert on_server("SELECT to_regnamespace(%s)", schema) == [(None,)]
