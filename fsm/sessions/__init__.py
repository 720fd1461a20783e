"""Sessions: their store, their epoch, and what is asked of them.

Every call takes `db` first: a handle of `storage.open_database`, or a location that is opened once a process. Ids are
texts of 1 to 1024 characters, clocks and new ids are the handle's. A refusal is a `RuntimeStoreError`, whose `reason`
is one of `fsm.errors.REASONS`. The rules stand in `fsm.lifecycles.session_admission`.
"""

from fsm.errors import RuntimeStoreError
from fsm.runtime.messages import MESSAGE_FIELDS
from fsm.runtime.views import MessageView, SessionView
from fsm.sessions.epochs import begin_runtime_epoch
from fsm.sessions.store import append_message, create_session, end_session, get_session, list_messages

__all__ = [
    "MESSAGE_FIELDS",
    "MessageView",
    "RuntimeStoreError",
    "SessionView",
    "append_message",
    "begin_runtime_epoch",
    "create_session",
    "end_session",
    "get_session",
    "list_messages",
]
