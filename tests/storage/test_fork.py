"""A forked child lets go of what it inherited, and the parent loses nothing by it."""

from pathlib import Path

import storage
from tests.storage.support import finish, grants, start

FORK = """
from tests.storage.support import INSERT, NOTES, SELECT, add, grants
path = sys.argv[1]
db = storage.open_database(path)
db.require(NOTES)
memory = storage.open_database(':memory:')
db.write(lambda tx: tx.execute(INSERT, add('parent')))
inherited = db._session().connection
"""

CHILD_WRITES = (
    FORK
    + """
child = os.fork()
if child == 0:
    assert storage.open_database(path) is db
    db.require(NOTES)
    db.write(lambda tx: tx.execute(INSERT, add('child')))
    assert db._session().connection is not inherited
    try:
        memory.write(lambda tx: tx.changes)
    except storage.StorageError as exc:
        assert 'parent process' in str(exc), exc
    else:
        raise SystemExit('a database in memory was used in the child')
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert db._session().connection is not inherited
db.write(lambda tx: tx.execute(INSERT, add('later')))
assert os.path.exists(path + '-wal')
print(grants(db))
"""
)


def test_a_child_uses_connections_of_its_own(tmp_path: Path) -> None:
    """Child and parent both write after a fork; a database in memory stays with the parent."""
    assert finish(start(CHILD_WRITES, tmp_path / "fork.db")) == "['child', 'later', 'parent']"


CHILD_EXITS = (
    FORK
    + """
read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    os.close(write_end)
    os.read(read_end, 1)
    sys.exit(0)
os._exit(0)
"""
)


def test_a_child_that_exits_last_does_not_checkpoint_what_it_inherited(tmp_path: Path) -> None:
    """The parent had let go of the file before the fork, so that the end of the child takes nothing with it."""
    path = tmp_path / "fork.db"
    finish(start(CHILD_EXITS, path))
    db = storage.open_database(path)
    assert grants(db) == ["parent"]
    db.close()


WORKERS = (
    FORK
    + """
import time
def work(number):
    for count in range(20):
        db.write(lambda tx: tx.execute(INSERT, add(f'{number}-{count}')))
        time.sleep(0.01)
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        work(number)
        os._exit(0)
    children.append(child)
time.sleep(0.1)
db.close()
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(len(grants(storage.open_database(path))), flush=True)
"""
)


def test_what_forked_workers_were_told_is_stored_is_stored(tmp_path: Path) -> None:
    """The parent closes its handle while its children write: not one acknowledged row of theirs is lost."""
    assert finish(start(WORKERS, tmp_path / "fork.db")) == "61"


FORK_WITHIN = (
    FORK
    + """
with db.transaction() as tx:
    tx.execute(INSERT, add('within'))
    child = os.fork()
    if child == 0:
        for use in (lambda: grants(db), lambda: grants(storage.open_database(path))):
            try:
                use()
            except storage.StorageError as exc:
                assert 'forked while a transaction was open' in str(exc), exc
            else:
                os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(grants(db), flush=True)
"""
)


def test_a_child_forked_within_a_transaction_is_refused_the_file(tmp_path: Path) -> None:
    """It would take the parent's locks for its own; the parent goes on and commits as if nothing had been."""
    assert finish(start(FORK_WITHIN, tmp_path / "fork.db")) == "['parent', 'within']"


CHILD_OF_A_HELD_LOCK = (
    FORK
    + """
import threading
held, over = threading.Event(), threading.Event()
def hold(tx):
    held.set()
    over.wait(30)
holder = threading.Thread(target=memory.write, args=(hold,))
holder.start()
held.wait(30)
child = os.fork()
if child == 0:
    import signal
    signal.alarm(5)
    for use in (lambda: memory.read(lambda tx: tx.changes), lambda: memory.require(NOTES)):
        try:
            use()
        except storage.StorageError as exc:
            assert 'parent process' in str(exc), exc
        else:
            raise SystemExit('a database in memory was used in the child')
    memory.close()
    memory.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
over.set()
holder.join()
memory.write(lambda tx: tx.execute('CREATE TABLE t (a)'))
print(memory.read(lambda tx: tx.table_exists('t')))
"""
)


def test_a_lock_held_at_the_fork_does_not_hang_the_child(tmp_path: Path) -> None:
    """An inherited database in memory refuses and closes at once, whoever had its turn; the parent goes on."""
    assert finish(start(CHILD_OF_A_HELD_LOCK, tmp_path / "fork.db")) == "True"


CHILD_IN_MEMORY_TRANSACTION = (
    FORK
    + """
child = -1
try:
    with memory.transaction() as tx:
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
except storage.StorageError as exc:
    assert child == 0 and 'over' in str(exc), exc
    memory.close()
    os._exit(0)
print(memory.read(lambda tx: tx.table_exists('notes')))
"""
)


def test_a_transaction_in_memory_open_at_a_fork_ends_in_the_child_without_the_lock(tmp_path: Path) -> None:
    """The child's end of the block is a storage error; it gives back no turn that it does not have."""
    assert finish(start(CHILD_IN_MEMORY_TRANSACTION, tmp_path / "fork.db")) == "False"


CHILD_IN_TRANSACTION = (
    FORK
    + """
try:
    with db.transaction() as tx:
        tx.execute(INSERT, add('parent again'))
        child = os.fork()
        if child == 0:
            try:
                tx.execute(INSERT, add('child'))
            except storage.StorageError:
                pass
            else:
                raise SystemExit('the inherited transaction was usable')
        else:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
except storage.StorageError as exc:
    assert child == 0 and 'over' in str(exc), exc
    sys.exit(0)
assert child
print(grants(db))
"""
)


def test_a_transaction_open_at_a_fork_belongs_to_the_parent(tmp_path: Path) -> None:
    """The child can neither use nor commit it; the parent's commit stands."""
    assert finish(start(CHILD_IN_TRANSACTION, tmp_path / "fork.db")) == "['parent', 'parent again']"
