"""Starting although the database is damaged: aside with it, and begin anew.

The fleet comes back from the agents: each says hello again, and sends what
was not acknowledged. What of the registry and the credentials can still be
read is taken over, so that keys stay bound and tokens stay valid. History is
lost with the old file, which is kept for whoever can mend it.
"""

from pathlib import Path
from typing import NamedTuple

from .store import Batch, Damaged, Keep, Store, salvage, set_aside


class Opened(NamedTuple):
    """The store, and what there is to tell of it."""

    store: Store
    trouble: str | None  # None: it was sound


def open_store(path: Path) -> Opened:
    """Return the store of a file, a new one if that is damaged; or StoreError.

    For the service alone, which holds the lock on the folder.
    """
    try:
        return Opened(Store(path), None)
    except Damaged as exc:
        why = str(exc)
    nodes, credentials = salvage(path)
    aside = set_aside(path)
    store = Store(path)
    store.commit(Batch(nodes=nodes), Keep(), 0.0)
    for credential in credentials:
        store.add_credential(credential)
    return Opened(
        store,
        f"{why}. It was moved to {aside}; taken over from it: {len(nodes)} nodes and "
        f"{len(credentials)} tokens. Agents enrol again by themselves, those without a "
        "token in their settings need one; history begins anew",
    )
