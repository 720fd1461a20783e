"""Registration and adoption: who may announce a worker, who may take it over, and what goes along."""

import hashlib
import hmac
from typing import Any

import pytest

from fsm import sessions, workers
from fsm.lifecycles.runtime_tables import ADMISSIONS, META
from tests.sessions.support import Owner
from tests.workers.support import OTHER_SECRET, SECRET, Works


def compress(owner: Owner, session: str, child: str) -> None:
    """End a session as compressed and open the child that continues it."""
    sessions.end_session(owner.db, session, reason="compression")
    owner.open(child, parent_session_id=session)


# --- registration


def test_the_secret_is_kept_as_a_digest_and_shown_by_no_view(works: Works) -> None:
    """What is stored is the SHA-256 of the secret; neither it nor the secret is in an answer or a refusal."""
    view = works.register()
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    assert (works.row() or {})["adoption_digest"] == digest
    with pytest.raises(workers.RuntimeStoreError) as refusal:
        works.adopt(adoption_secret=OTHER_SECRET)
    told = f"{view}{works.adopt()}{refusal.value}{refusal.value.detail}"
    assert digest not in told
    assert SECRET not in told
    assert OTHER_SECRET not in told
    assert not any(SECRET in str(row) for rows in works.owner.everything().values() for row in rows)


def test_the_secret_is_compared_in_constant_time(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is compared by hmac.compare_digest, and by nothing that stops at the first difference."""
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def noting(stored: bytes, shown: bytes) -> bool:
        compared.append((stored, shown))
        return compare(stored, shown)

    works.register()
    monkeypatch.setattr(hmac, "compare_digest", noting)
    works.adopt()
    with works.refuses("permission_denied"):
        works.adopt(adoption_secret=OTHER_SECRET)
    assert [stored == shown for stored, shown in compared] == [True, False]


@pytest.mark.parametrize("kind", ["cron", "child", "compute", "kanban"])
def test_each_kind_is_registered(works: Works, kind: str) -> None:
    """A worker is one of four kinds."""
    assert works.register(kind=kind)["kind"] == kind


def test_one_worker_keeps_all_of_a_lineage_busy(works: Works) -> None:
    """A worker anywhere in the lineage refuses another anywhere in it, until it has ended; a branch stands apart."""
    owner = works.owner
    compress(owner, "s", "s2")
    compress(owner, "s2", "s3")
    owner.open("branch", parent_session_id="s3", source="branch")
    works.register("middle", session_id="s2")
    for session in ("s", "s2", "s3"):
        with works.refuses("stale_generation"):
            works.register("w", session_id=session)
    works.register("apart", session_id="branch")
    works.finish(worker="middle", session_id="s2")
    works.register("w", session_id="s3")


def test_an_unknown_worker_keeps_it_busy_too(works: Works) -> None:
    """A worker that nobody has heard of since its owner went refuses the next one."""
    later = works.bring("unknown")
    with later.refuses("stale_generation"):
        later.register("w2")


def test_an_unknown_admission_comes_first(works: Works) -> None:
    """A turn of the lineage that must be resolved refuses a worker as unknown_execution; a queued one does not."""
    owner = works.owner
    owner.admit("queued")
    works.register("early")
    works.finish(worker="early")
    owner.claim()
    later = works.succeed()
    later.owner.recover()
    compress(owner, "s", "s2")
    with later.refuses("unknown_execution"):
        later.register("w", session_id="s2")
    with later.refuses("unknown_execution"):
        later.register("w", generation=1)


@pytest.mark.parametrize("state", ["queued", "started"])
def test_an_idle_session_may_be_asked_for(works: Works, state: str) -> None:
    """With `require_idle` anything queued or started in the lineage refuses; without it neither does."""
    owner = works.owner
    owner.bring(state)
    generation = int(owner.session()["runtime_generation"] or 0)
    compress(owner, "s", "s2")
    with works.refuses("stale_generation"):
        works.register(session_id="s2", require_idle=True)
    with works.refuses("stale_generation"):
        works.register(generation=generation, require_idle=True)
    works.register(generation=generation)


def test_an_id_of_a_deleted_session_is_never_registered_again(works: Works) -> None:
    """A tombstone keeps the id of an execution that went with its session."""
    works.owner.execute(
        f"INSERT INTO {META.name} (key, value) VALUES ('gateway.terminal_worker.v1.w', '{{}}')",
    )
    with works.refuses("admission_conflict"):
        works.register()
    works.register("w2")


# --- adoption


def test_adoption_is_harmless_to_repeat(works: Works) -> None:
    """A second adoption by the same owner answers the same and changes no row."""
    works.register()
    first = works.adopt()
    with works.changes_nothing():
        assert works.adopt() == first


@pytest.mark.parametrize("recovered", [True, False])
def test_the_claim_goes_along_with_its_worker(works: Works, recovered: bool) -> None:
    """Adopting moves the claim to the new epoch, and what steers towards it moves with the claim.

    Before recovery as after it; what recovery has interrupted stays so.
    """
    owner = works.owner
    running = owner.start()
    taken, _ = owner.steer(owner.admit("r2"))
    works.register(generation=1)
    later = works.succeed()
    if recovered:
        later.owner.recover()
    view = later.adopt(generation=1)
    assert (view["owner_epoch"], view["status"]) == (2, "running")
    assert (later.owner.state("r1"), (later.owner.row("r1") or {})["owner_epoch"]) == ("started", 2)
    steering = later.owner.row("r2") or {}
    if recovered:
        assert later.owner.state("r2") == "interrupted"
    else:
        assert (later.owner.state("r2"), steering["owner_epoch"]) == ("steering", 2)
    later.owner.settle(running, transfers={taken["admission_id"]: True})
    assert later.owner.state("r2") == ("interrupted" if recovered else "steered")
    assert later.state() == "terminal"


def test_a_claim_is_found_by_its_lineage(works: Works) -> None:
    """The admission moves along where its lineage names the worker's session, though its queue is another's."""
    owner = works.owner
    owner.start()
    owner.alter(lineage_json='["s", "s2"]')
    owner.open("s2")
    owner.execute("UPDATE sessions SET runtime_generation = 1 WHERE id = 's2'")
    works.register(session_id="s2", generation=1)
    later = works.succeed()
    later.adopt(session_id="s2", generation=1)
    assert (later.owner.row() or {})["owner_epoch"] == 2


def test_only_the_worker_moves_where_no_claim_is_its_own(works: Works) -> None:
    """A claim of another generation, of another epoch or of another session stays with whoever has it."""
    owner = works.owner
    owner.start()
    owner.open("t")
    owner.start("r9", "t")
    works.register(generation=1)
    owner.alter(generation=5)
    later = works.succeed()
    before = (later.owner.row(), later.owner.row("r9", "t"))
    later.adopt(generation=1)
    assert (later.owner.row(), later.owner.row("r9", "t")) == before
    assert later.state() == "running"


def test_two_claims_of_one_worker_are_a_conflict(works: Works) -> None:
    """Where two admissions could be the worker's, none moves, nor does the worker."""
    owner = works.owner
    owner.start()
    owner.open("t")
    owner.start("r9", "t")
    owner.alter("r9", lineage_json='["t", "s"]')
    works.register(generation=1)
    later = works.succeed()
    with later.refuses("admission_conflict"):
        later.adopt(generation=1)


@pytest.mark.parametrize("stored", ["", "{", "5", '{"s": 1}', "[[["])
def test_a_damaged_lineage_names_no_session(works: Works, stored: str) -> None:
    """An admission whose lineage does not decode is not the worker's by it, and keeps nobody from adopting."""
    owner = works.owner
    owner.start()
    owner.open("t")
    owner.start("r9", "t")
    owner.execute(f"UPDATE {ADMISSIONS.name} SET lineage_json = :l WHERE request_id = 'r9'", l=stored)
    works.register(generation=1)
    later = works.succeed()
    later.adopt(generation=1)
    assert (later.owner.row() or {})["owner_epoch"] == 2
    assert (later.owner.row("r9", "t") or {})["owner_epoch"] == 1


def test_a_reserved_execution_is_adopted_within_its_own_epoch_alone(works: Works) -> None:
    """An `admission-worker:` execution of an older epoch is stale_epoch, after its secret; recovery's word stands."""
    name = "admission-worker:1"
    works.owner.start()
    works.register(name, generation=1)
    assert works.adopt(name, generation=1)["status"] == "running"
    later = works.succeed()
    for _ in range(2):
        with later.refuses("permission_denied"):
            later.adopt(name, generation=1, adoption_secret=OTHER_SECRET)
        with later.refuses("stale_epoch"):
            later.adopt(name, generation=1)
        later.owner.recover()
    assert later.owner.state() == "unknown"
    assert later.state(name) == "unknown"


# --- recovery


def test_recovery_loses_workers_but_ends_children(works: Works) -> None:
    """What an older epoch left is unknown, and a child is terminal, also one that was unknown already."""
    owner = works.owner
    for worker, kind in (("a", "cron"), ("b", "child"), ("c", "child")):
        owner.open(worker)
        works.register(worker, session_id=worker, kind=kind)
    owner.execute("UPDATE worker_executions SET status = 'unknown' WHERE execution_id = 'c'")
    later = works.succeed()
    later.owner.open("d")
    later.register("d", session_id="d")
    later.owner.recover()
    assert [later.state(worker) for worker in "abcd"] == ["unknown", "terminal", "terminal", "registered"]


def test_a_finished_execution_stays_finished(works: Works) -> None:
    """Neither recovery, nor adoption, nor a settlement brings an execution back that has ended."""
    owner = works.owner
    running = owner.start()
    works.register(generation=1)
    works.finish(generation=1)
    before = works.row()
    owner.settle(running)
    later = works.succeed()
    later.owner.recover()
    with later.refuses("stale_generation"):
        later.adopt(generation=1)
    assert later.row() == before


def test_views_name_what_is_stored(works: Works) -> None:
    """A view has the columns of the row but the digest, and no other field."""
    view: dict[str, Any] = {**works.register()}
    assert view == {
        "execution_id": "w",
        "session_id": "s",
        "kind": "cron",
        "owner_epoch": 1,
        "generation": 0,
        "status": "registered",
        "last_sequence": 0,
    }


def test_a_lineage_in_a_circle_is_refused(works: Works) -> None:
    """Sessions that continue each other in a circle have no oldest one: nothing is registered, and no turn is had."""
    owner = works.owner
    works.register()
    compress(owner, "s", "s2")
    sessions.end_session(owner.db, "s2", reason="compression")
    owner.execute("UPDATE sessions SET parent_session_id = 's2' WHERE id = 's'")
    for call in (lambda: works.register("w2"), lambda: works.do("turn.acquire", {"holder": "h"})):
        with works.refuses("admission_conflict"):
            call()
