"""The runtime's epoch: which owner of the gateway's state is the present one."""

from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import RUNTIME_EPOCH
from fsm.runtime.parse import Location, call, opened, parse_text

__all__ = ["begin_runtime_epoch"]

_BEGIN = f"""
    INSERT INTO {quoted(RUNTIME_EPOCH.name)} (singleton, epoch, instance_id) VALUES (1, 1, :instance_id)
    ON CONFLICT (singleton) DO UPDATE
    SET epoch = {quoted(RUNTIME_EPOCH.name)}.epoch + 1, instance_id = excluded.instance_id RETURNING epoch
"""


@call
def begin_runtime_epoch(db: Location, *, instance_id: object) -> int:
    """Begin the next epoch, the first being 1: every call of an older one is stale_epoch from now on.

    The caller must hold the profile's own lock. Never replays: where the answer was lost, call again, and use what the
    last call returned. `instance_id` has 1 to 1024 characters. Raises RuntimeStoreError(invalid_params).
    """
    name = parse_text(instance_id, "instance_id")
    rows = opened(db).write(lambda tx: tx.execute(_BEGIN, {"instance_id": name}))
    return int(rows[0]["epoch"] or 0)
