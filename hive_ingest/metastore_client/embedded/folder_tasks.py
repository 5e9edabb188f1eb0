"""What a DDL statement still has to do to folders after its COMMIT, done also when its process was killed.

A dropped table or partition goes out of the catalog together with a row of FOLDER_TASKS. Then its folder gets a
hidden name beside it, so that nothing made later in its place can show its rows; then it is removed; last, the
components of its aborted transactions are forgotten. A renamed table's folder is moved in the same way, under the
EXCLUSIVE lock of the rename, which is kept until then.

An object store cannot rename a folder. There a dropped folder is removed where it lies, some files at a time, each time
while the row of its task is locked: whoever creates something in that place waits for the row, and removes the rest.

Each step can be repeated, by any process: the one that made the statement, housekeeping, one that waits for a lock, and
one that creates something in that place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from hive_ingest.errors import StreamingError, StreamingIOFailure
from hive_ingest.metastore_client.embedded.folders import is_same_or_inside, rename_folder
from hive_ingest.metastore_client.embedded.migrations import GET_METASTORE_ID
from hive_ingest.metastore_client.embedded.sessions import Row, Session, Sessions
from hive_ingest.model import LockId, TableName
from hive_ingest.storage import Location

_log = logging.getLogger(__name__)

_REPORT_SECONDS = 30.0
_REMOVE, _MOVE, _TRASH, _REMOVE_IF_EMPTY = "remove", "move", "trash", "remove if empty"
_REMOVE_IN_PLACE = "remove in place"

_FROM_TASKS = """
    SELECT FT_ID, FT_KIND, FT_SOURCE, FT_TARGET, FT_DATABASE, FT_TABLE, FT_PARTITION, FT_NEXT_WRITE_ID, FT_LOCK_ID
    FROM FOLDER_TASKS
"""
_ALL = f"{_FROM_TASKS} ORDER BY FT_ID"
_GET = f"{_FROM_TASKS} WHERE FT_ID = :task FOR UPDATE"
_INSERT = """
    INSERT INTO FOLDER_TASKS
        (FT_KIND, FT_SOURCE, FT_TARGET, FT_DATABASE, FT_TABLE, FT_PARTITION, FT_NEXT_WRITE_ID, FT_LOCK_ID)
    VALUES (:kind, :source, :target, :database, :table, :partition, :next_write_id, :lock_id)
"""
_SET_SOURCE = "UPDATE FOLDER_TASKS SET FT_KIND = :kind, FT_SOURCE = :source WHERE FT_ID = :task"
_DETACH = "UPDATE FOLDER_TASKS SET FT_DATABASE = NULL, FT_TABLE = NULL, FT_PARTITION = NULL WHERE FT_ID = :task"
_DELETE = "DELETE FROM FOLDER_TASKS WHERE FT_ID = :task"
_RELEASE = "DELETE FROM HIVE_LOCKS WHERE HL_LOCK_EXT_ID = :lock_id"
_EXPLAIN_LOCK = "UPDATE HIVE_LOCKS SET HL_AGENT_INFO = :agent_info WHERE HL_LOCK_EXT_ID = :lock_id"
_MOVE_UNDER = "SELECT FT_SOURCE, FT_TARGET FROM FOLDER_TASKS WHERE FT_LOCK_ID = :lock_id"
_LOCATIONS = "SELECT DB_LOCATION_URI FROM DBS UNION SELECT LOCATION FROM TBLS"
# A table of the same name may have been made since: only write ids of the one that was dropped are forgotten.
_FORGET = (
    """
    DELETE FROM TXN_COMPONENTS
    WHERE TC_DATABASE = :database AND TC_TABLE = :table AND TC_WRITEID < :next_write_id
        AND TC_TXNID IN (SELECT TXN_ID FROM TXNS WHERE TXN_STATE = 'a')
    """,
    """
    DELETE FROM COMPLETED_TXN_COMPONENTS
    WHERE CTC_DATABASE = :database AND CTC_TABLE = :table AND CTC_WRITEID < :next_write_id
    """,
)
_FORGET_PARTITION = (
    f"{_FORGET[0]} AND TC_PARTITION = :partition",
    f"{_FORGET[1]} AND CTC_PARTITION = :partition",
)


# -- planning, in the transaction of the DDL statement -------------------------------------------------


def plan_removal(
    session: Session, location: str, name: TableName, next_write_id: int, *, partition: str | None = None
) -> None:
    """Plan the removal of the folder of a dropped table or partition."""
    store = Location.of(location).store
    if not store.has_folders:
        _log.warning("%s lies at %s, which cannot be removed from here: remove it by hand", name, location)
        return
    about = {"database": name.database, "table": name.table, "partition": partition}
    kind = _REMOVE if store.can_rename_folders else _REMOVE_IN_PLACE
    session.execute(_INSERT, **_row(kind, location, next_write_id=next_write_id, **about))


def plan_removal_if_empty(session: Session, location: str) -> None:
    """Plan the removal of the folder of a dropped database, if it is empty: anything left in it is foreign."""
    session.execute(_INSERT, **_row(_REMOVE_IF_EMPTY, location))


def plan_move(session: Session, source: str, target: str, lock_id: int) -> None:
    """Plan the move of the folder of a renamed table."""
    session.execute(_INSERT, **_row(_MOVE, source, target=target, lock_id=lock_id))


def _row(kind: str, source: str, **fields: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("target", "database", "table", "partition", "next_write_id", "lock_id"))
    return {**nothing, "kind": kind, "source": source, **fields}


def keeps_lock(session: Session, lock_id: LockId) -> bool:
    """Whether the folder of a rename is still to be moved: until then its lock keeps readers and writers out.

    Whoever waits for the lock tries the move again, and finds in the lock what is in the way.
    """
    move = session.row(_MOVE_UNDER, lock_id=lock_id)
    if move is None:
        return False
    info = f"hive-ingest: a rename is not finished, {move[0]} is still to be moved to {move[1]}: make both writable"
    session.execute(_EXPLAIN_LOCK, lock_id=lock_id, agent_info=info)
    return True


def follow_move(session: Session, old: str, new: str) -> None:
    """Move the tasks of folders below a folder that is moved."""
    for task in session.rows(_ALL):
        if task[1] != _MOVE and task[2].startswith(old + "/"):
            session.execute(_SET_SOURCE, task=task[0], kind=task[1], source=new + task[2][len(old) :])


def clear_place(session: Session, locations: Iterable[str]) -> None:
    """Hide or remove dropped folders that still lie at one of `locations`, above or below it.

    Raises StreamingIOFailure.
    """
    wanted = list(locations)
    for task in session.rows(_ALL):
        at = task[3] if task[1] == _MOVE else task[2]
        if task[1] == _TRASH or not any(is_same_or_inside(at, x) or is_same_or_inside(x, at) for x in wanted):
            continue
        if task[1] == _REMOVE_IN_PLACE:
            while not _remove_some(session, task[0]):
                pass
        else:
            _start(session, task[0])


def clear_name(session: Session, name: TableName) -> None:
    """Forget the transactions of a dropped table whose name another one takes, with write ids of its own.

    The tasks that are left remove files only: at their end the name stands for the other table's transactions.
    """
    for task in session.rows(_ALL):
        if (task[4], task[5]) == (name.database, name.table):
            if task[1] != _REMOVE_IN_PLACE:
                _start(session, task[0])
            session.execute(_DETACH, task=task[0])
            _forget(session, task)


# -- doing -------------------------------------------------------------------------------------------


class FolderTasks:
    """Carries out planned tasks. Each client has one."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        #: When each task that cannot be finished was last reported. Several threads may change it.
        self._reported: dict[int, float] = {}

    def finish(self) -> None:
        """All tasks. One that fails is logged and stays, for the next who comes by.

        The statement itself is committed, so nothing is raised that looks like its failure.
        """
        try:
            # Moves first: what is to be removed may lie in a folder that is moved, and is known by its new place.
            tasks = sorted(self._sessions.query(_ALL), key=lambda task: task[1] != _MOVE)
        except StreamingError as error:
            _log.warning("folders of dropped and renamed tables are still to be moved or removed: %s", error)
            return
        for task in tasks:
            try:
                self._do(task)
                self._reported.pop(task[0], None)
            except (StreamingError, OSError) as error:
                self._report(task, error)

    def _report(self, task: Row, error: Exception) -> None:
        """At once, then every half minute: whoever waits for the lock of a rename comes by twice a second."""
        now, last = time.monotonic(), self._reported.get(task[0])
        if last is None or now - last >= _REPORT_SECONDS:
            self._reported[task[0]] = now
            _log.warning("%s is still to be moved or removed: %s", task[2], error)

    def _do(self, task: Row) -> None:
        task_id = task[0]
        if task[1] == _REMOVE_IN_PLACE:
            while not self._sessions.run(lambda session: _remove_some(session, task_id)):
                pass
            return
        trash = self._sessions.run(lambda session: _start(session, task_id))
        if trash is not None:
            trash.delete_folder()
            self._sessions.run(lambda session: _end(session, task_id))


def _start(session: Session, task_id: int) -> Location | None:
    """Everything but removing files: those under the path that is returned are to be removed."""
    task = session.row(_GET, task=task_id)
    if task is None:
        return None  # somebody else was faster
    kind, folder = task[1], Location.of(task[2])
    if kind == _TRASH:
        return folder
    if kind == _REMOVE:
        return _put_out_of_sight(session, task, folder)
    if kind == _REMOVE_IF_EMPTY:
        _remove_if_empty(folder)
    elif kind == _MOVE:
        _move(folder, Location.of(task[3]))
        session.execute(_RELEASE, lock_id=task[8])
    session.execute(_DELETE, task=task_id)
    return None


def _put_out_of_sight(session: Session, task: Row, folder: Location) -> Location | None:
    """Its hidden name in the same folder, which one task always gets."""
    hidden = folder.parent / f".hive_ingest_trash_{session.scalar(GET_METASTORE_ID)}_{task[0]}"
    if not hidden.exists():  # else it was renamed by a process that was killed before its COMMIT
        if not _is_removable(session, task, folder):
            return None
        if folder.exists():
            rename_folder(folder, hidden)
    session.execute(_SET_SOURCE, task=task[0], kind=_TRASH, source=str(hidden))
    return hidden


def _remove_some(session: Session, task_id: int) -> bool:
    """Remove some files of a folder that cannot be renamed. Returns whether the task is finished.

    The lock of the task's row lasts for a few requests only, because SQLite has one lock for everything.
    """
    task = session.row(_GET, task=task_id)
    if task is None:
        return True  # somebody else was faster
    folder = Location.of(task[2])
    if not _is_removable(session, task, folder):
        return True
    if not folder.store.delete_some(folder.path):
        return False
    _end(session, task_id)
    return True


def _is_removable(session: Session, task: Row, folder: Location) -> bool:
    """Whether nothing in the catalog lies in a dropped folder. Otherwise its task ends here."""
    in_use = [location for (location,) in session.rows(_LOCATIONS) if is_same_or_inside(location, task[2])]
    if not in_use and not folder.store.is_symlink(folder.path):
        return True
    _log.warning("%s is not removed: it is a symbolic link, or %s lies in it", folder, in_use or "something")
    session.execute(_DELETE, task=task[0])
    return False


def _remove_if_empty(folder: Location) -> None:
    if not folder.store.has_folders:
        return
    try:
        if not folder.store.delete_empty_folder(folder.path):
            _log.warning("%s is not removed: something else lies in it", folder)
    except StreamingIOFailure as error:
        _log.warning("%s is not removed: %s", folder, error)


def _move(source: Location, target: Location) -> None:
    if source.exists():
        rename_folder(source, target)


def _end(session: Session, task_id: int) -> None:
    task = session.row(_GET, task=task_id)
    if task is not None:
        _forget(session, task)
        session.execute(_DELETE, task=task_id)


def _forget(session: Session, task: Row) -> None:
    """Once its files are gone an aborted write need not be remembered."""
    if task[5] is None:
        return
    about = {"database": task[4], "table": task[5], "next_write_id": task[7]}
    if task[6] is None:
        for statement in _FORGET:
            session.execute(statement, **about)
    else:
        for statement in _FORGET_PARTITION:
            session.execute(statement, **about, partition=task[6])
