# SPDX-License-Identifier: Apache-2.0
"""The pieces of an open session and how they hang together: model, store, journal, cache. Needs torch.

A session's K and V are the store's sequence that bears the session's id. It is made with the first prompt, so that it
can begin with what others have stored, and goes with the journal.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nearkv.adapters.transformers import NearStorageCache
from nearkv.adapters.transformers.network import SequenceNetwork
from nearkv.adapters.transformers.support import check_config
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.models.facts import end_tokens, position_limit
from nearkv.models.fingerprint import model_fingerprint
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.session.journal_reading import Found
from nearkv.session.keys import extent_keys
from nearkv.session.quota import require_room
from nearkv.session.recorded_model import difference
from nearkv.session.records import Header, Sampling
from nearkv.session.repair import open_fitting
from nearkv.session.sequences import drop_orphans, undone
from nearkv.session.state import replay
from nearkv.session.steps import Network, Restored, SessionSteps
from nearkv.volume_errors import PageMismatch

if TYPE_CHECKING:
    from nearkv.timeline import Timeline


class SessionParts:
    """The pieces of an open session. `stack` closes them; `open` comes first."""

    def __init__(
        self, loaded: Any, urls: list[str], folder: Path, stack: ExitStack, timeline: Timeline | None, share: bool
    ) -> None:
        self.model, self.tokenizer, self.share = loaded.model, loaded.tokenizer, share
        self.layout = check_config(loaded.model.config.get_text_config(decoder=True), loaded.name).layout
        self.limit = position_limit(loaded.model.config)
        self.weights = model_fingerprint(loaded.model)
        self.ends = end_tokens(loaded.model, loaded.tokenizer)
        self.store: KVStore = stack.enter_context(KVStore.open(self.layout, urls, timeline=timeline))
        self.folder = SessionFolder(folder)
        self._stack, self._network = stack, LaterNetwork()
        self.cache: NearStorageCache | None = None
        self._sequence: int | None = None
        self._incomplete = ""
        self.header: Header
        self.restored = Restored(0, 0, 0)
        self.torn_nbytes = 0

    @property
    def has_sequence(self) -> bool:
        return self._sequence is not None

    def open(self, name: str, tenant: str, every: int) -> None:
        drop_orphans(self.folder, self.store.names(), self.store.delete)
        sequence = None
        if self.folder.exists(name, tenant):
            found = self.folder.read(name, tenant)
            self.header = self._checked(found)
            # Before the journal is opened, which cuts off a torn end: where the two do not fit, both stay as they are.
            path = self.folder.path_of(name, tenant)
            sequence, self._incomplete = open_fitting(self.store, path, found)
            self.journal, found = self.folder.open(name, tenant=tenant, every=every)
            state, self.torn_nbytes = found.state, found.torn_nbytes
        else:
            self.journal, self.header = self.folder.create(
                name, self.layout.model, tenant=tenant, every=every, weights=self.weights
            )
            self._stack.push(self._forget_if_refused)
            state = replay([self.header])
        self._stack.enter_context(self.journal)
        self.steps = self._stack.enter_context(SessionSteps(self.journal, state, self._network))
        if sequence is None and self.steps.tokens:
            sequence = self.store.add_sequence(self._sequence_name)
        if sequence is not None:
            self._adopt(sequence)

    def _forget_if_refused(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A session that was made for a turn that was then refused goes again: nothing was said in it."""
        if isinstance(error, UserError) and self.steps.untouched:
            self.folder.remove(self.header.name, self.header.tenant)

    def restore(self) -> None:
        """Computes what is not stored; `restored` tells."""
        if self._sequence is not None:
            info = self.store.info(self._sequence)
            reason = self._incomplete or info.reason
            self.restored = replace(self.steps.restore(), lost=info.dropped_tokens, reason=reason)

    def begin(self, prompt: Sequence[int]) -> int:
        """How many tokens of the prompt have K and V that the session will begin with.

        Its sequence is made when the first of the others is computed: the journal has the prompt before the volumes
        have K and V of it.
        """
        if self.has_sequence or self.steps.tokens:  # a turn that ended before anything was computed has said how
            return 0
        keys = self._keys(prompt[:-1]) if self.share else []

        def make(shared: int) -> None:
            name, some = self._sequence_name, keys[: shared // self.layout.extent_tokens]
            sequence = self.store.opened(name)
            if sequence is None:  # else Ctrl-C came before it was adopted, below before it was whole
                if name in self.store.names():
                    self.store.delete(name)
                sequence = self.store.add_sequence(name, keys=some, tokens=prompt)
            self._adopt(sequence)
            if (info := self.store.info(sequence)).tokens < shared:
                raise PageMismatch(
                    f"K and V of {shared} tokens that another session has stored are damaged, and the session begins "
                    f"without them; finish its turn, which computes them ({info.reason})",
                    path=str(self.folder.path_of(self.header.name, self.header.tenant)),
                )

        return self._network.later(self.store.shared(keys, prompt), make)

    def check_quota(self, tokens: int) -> None:
        """UserError where the tenant may not have so many tokens in this session."""
        require_room(self.store, self.folder, self.header.tenant, tokens, session=self.header.session)

    def label(self) -> None:
        """Later sessions find what this one has stored."""
        if self._sequence is not None and self.share:
            self.store.label(self._sequence, self._keys(self.steps.tokens[: self._network.cached]))

    def fork(self, name: str) -> None:
        self.steps.require_open()
        if self.folder.exists(name, self.header.tenant):
            raise UserError(f"there is a session {name!r} already; take another name")
        self.journal.settle()
        if self._sequence is not None:
            self.store.flush()  # else this session is charged for less than it is about to have
            require_room(self.store, self.folder, self.header.tenant, self._network.cached)
        session = secrets.token_hex(8)
        with undone(self.store, session):
            if self._sequence is not None:
                self.store.fork_named(self._sequence, SEQUENCE_PREFIX + session)
            self.folder.copy(self.header, name, session)

    def text_of(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _keys(self, tokens: Sequence[int]) -> list[bytes]:
        # With what the session records: what an old one does not know must not be shared as if it were known.
        return extent_keys(self.layout, self.folder.salt(self.header.tenant), tokens, self.header.weights)

    @property
    def _sequence_name(self) -> str:
        return SEQUENCE_PREFIX + self.header.session

    def _adopt(self, sequence: int) -> None:
        if self.cache is None:  # else Ctrl-C came below, and two of them would free the sequence twice
            self.cache = self._stack.enter_context(
                NearStorageCache(
                    self.model.config, store=self.store, sequences=[sequence], model_name=self.layout.model
                )
            )
        self._network.set(SequenceNetwork(self.model, self.cache, self.store, sequence))
        self._sequence = sequence

    def _checked(self, found: Found) -> Header:
        """The header of a session of this model and these weights; UserError for another one."""
        header = found.state.header
        assert header is not None  # read_journal refuses a journal without one
        if header.model != self.layout.model:
            raise UserError(f"session {header.name!r} is of model {header.model!r}; this is {self.layout.model!r}")
        if other := difference(header.weights, self.weights):
            raise UserError(
                f"session {header.name!r} was made with other {other} of a model that is named {header.model!r} too "
                f"({header.weights}; this is {self.weights}); its K and V do not fit this one"
            )
        known = self.model.get_input_embeddings().num_embeddings
        if (odd := max(found.state.tokens, default=0)) >= known:
            raise UserError(f"session {header.name!r} has the token {odd}; the model knows 0 to {known - 1}")
        return header


class LaterNetwork:
    """A `Network` that is made when it has to compute something; before, it has what it will begin with."""

    def __init__(self) -> None:
        self._inner: Network | None = None
        self._make: Callable[[int], None] | None = None
        self._begins = 0
        self._before_durable: Callable[[], None] | None = None

    def set(self, network: Network) -> None:
        self._inner = network
        if self._before_durable is not None:
            network.guard(self._before_durable)

    def later(self, begins: int, make: Callable[[int], None]) -> int:
        """`make` will be called with `begins`, or what is left of it then, and calls `set`."""
        self._begins, self._make = begins, make
        return begins

    @property
    def cached(self) -> int:
        return self._begins if self._inner is None else self._inner.cached

    @property
    def held(self) -> Sequence[int | None]:
        return () if self._inner is None else self._inner.held

    def guard(self, before_durable: Callable[[], None]) -> None:
        self._before_durable = before_durable
        if self._inner is not None:
            self._inner.guard(before_durable)

    def crop(self, tokens: int) -> None:
        if self._inner is not None:
            self._inner.crop(tokens)
        elif tokens < self._begins:
            self._begins = 0  # of whole extents alone could it begin with some

    def flush(self) -> None:
        if self._inner is not None:
            self._inner.flush()

    def forward(self, tokens: Sequence[int]) -> Any:
        return self._there().forward(tokens)

    def choose(self, scores: Any, sampling: Sampling, position: int) -> int:
        return self._there().choose(scores, sampling, position)

    def _there(self) -> Network:
        if self._inner is None:
            if self._make is None:
                raise RuntimeError("the session has no cache yet")
            self._make(self._begins)
        assert self._inner is not None
        return self._inner
