# SPDX-License-Identifier: Apache-2.0
"""The sequences of a store that hold sessions' K and V, and what crashes leave of them. Of journals it reads headers.

K and V can be computed again from the journal, so what is not whole, and what no journal names, goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from nearkv_driver.errors import DriverError, StorageError

from nearkv.kvstore import KVStore
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.volume_errors import SequenceIncomplete


def open_whole(store: KVStore, session: str) -> tuple[int | None, str]:
    """The session's sequence, open; None where the volumes hold none. One of which a crash left some KV heads only
    is deleted, and the text says so."""
    name = SEQUENCE_PREFIX + session
    if name not in store.names():
        return None, ""
    try:
        return store.open_sequence(name), ""
    except SequenceIncomplete as error:
        store.delete(name)
        return None, str(error)


@contextmanager
def undone(store: KVStore, session: str) -> Iterator[None]:
    """What fails inside leaves no sequence of the new session behind, or one that the next opening removes."""
    try:
        yield
    except BaseException:
        name = SEQUENCE_PREFIX + session
        with suppress(DriverError):
            if name in store.names():
                store.delete(name)
        raise


def drop_orphans(folder: SessionFolder, names: Iterable[str], delete: Callable[[str], object]) -> None:
    """Deletes those of the sequences `names` that are a session's and that no journal names: it was being made or
    removed when the process ended. The caller holds the locks of the volumes."""
    folder.tidy()
    found = [name for name in names if name.startswith(SEQUENCE_PREFIX)]
    if not found:
        return
    try:
        known = {header.session for header in folder.headers()}
    except StorageError:
        return  # what a journal that cannot be read names is not known
    for name in found:
        if name.removeprefix(SEQUENCE_PREFIX) not in known:
            delete(name)
