# SPDX-License-Identifier: Apache-2.0
"""`Session`: a conversation with a model that goes on after exit, crash or reboot. Opens model, cards and journal.

What a turn is and what is computed again after a crash is in `steps` and `plan`; this connects them to a real model.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nearkv.config import DEFAULT_CARDS, DEFAULT_MODEL, DEFAULT_NEW_TOKENS
from nearkv.errors import UserError
from nearkv.inputs import check_cards, check_context, check_count
from nearkv.models.loading import find_model, load_model
from nearkv.models.runtime import find_device, quiet_transformers, torch_threads
from nearkv.ownership import Owner
from nearkv.refusals import refusing
from nearkv.session.folder import DEFAULT_TENANT, SessionFolder
from nearkv.session.prompts import message_tokens
from nearkv.session.records import TOKENS_MAX, Sampling
from nearkv.session.steps import Restored
from nearkv.session.watch import SessionReply, TurnWatch
from nearkv.streaming import OnText
from nearkv.volume_errors import VolumeMismatch
from nearkv.volume_folders import check_folders, volume_folder
from nearkv.volume_identity import read_identity

if TYPE_CHECKING:
    from nearkv_driver.registry import CardUrl

    from nearkv.session.parts import SessionParts
    from nearkv.stats import StoreStats
    from nearkv.timeline import Timeline

OnStage = Callable[[str], None]


class Session:
    """Use `open` or `resume`; a context manager. One process at a time has the volumes of a session open, and in it one
    call at a time changes the session: another thread's waits for it. Reading waits for a record's write at most."""

    def __init__(self, resources: ExitStack, parts: SessionParts) -> None:
        """Use `open` or `resume`."""
        self._resources, self._parts = resources, parts
        self._turns, self._owner = threading.RLock(), Owner("session")

    @classmethod
    def open(
        cls,
        name: str,
        *,
        model: str | Path = DEFAULT_MODEL,
        cards: Sequence[str] = DEFAULT_CARDS,
        tenant: str = DEFAULT_TENANT,
        create: bool = True,
        journal_every: int = 1,
        share: bool = True,
        device: str = "auto",
        threads: int | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        on_stage: OnStage | None = None,
        timeline: Timeline | None = None,
    ) -> Self:
        """Opens the session of this name, or makes it. Nothing that is stored is computed again.

        cards: URLs, each with `ssd=FOLDER`, the same ones in the same order every time. tenant: sessions of different
        tenants share nothing. journal_every: a sync of the journal after so many generated tokens; a power cut loses
        fewer than these, 0: those of the turn. share: a new session takes over K and V of a prefix that another one of
        the tenant has stored.

        Raises UserError for what cannot be done as asked, DriverError for trouble with a card or its storage.
        """
        stage = on_stage or (lambda _: None)
        with refusing():
            urls = check_cards(cards)
            folders = [_folder(url) for url in urls]
            SessionFolder(folders[0]).path_of(name, tenant)
            if type(journal_every) is not int or journal_every < 0:
                raise UserError(f"journal_every = {journal_every!r}; a whole number of tokens, 0 for none, is allowed")
            if threads is not None:
                check_count("threads", threads)
            _check_all_there(folders)
            if not create and not SessionFolder(folders[0]).exists(name, tenant):
                SessionFolder(folders[0]).read(name, tenant)  # says what there is
            find_model(model)
            check_folders(urls)
            place = find_device(device)
        with ExitStack() as guard:
            stack = guard.enter_context(ExitStack())
            stage(f"loading {model}")
            with refusing():
                stack.enter_context(quiet_transformers())
                stack.enter_context(torch_threads(threads))
                loaded = load_model(model, cache_dir=cache_dir, device=place)
                stage(f"opening {len(urls)} cards")
                from nearkv.session.parts import SessionParts  # needs torch, what comes before does not

                parts = SessionParts(loaded, [url.text for url in urls], folders[0], stack, timeline, share)
                parts.open(name, tenant, journal_every)
            stage("computing what is not stored")
            parts.restore()
            guard.pop_all()
            return cls(stack, parts)

    @classmethod
    def resume(cls, name: str, **options: Any) -> Self:
        """`open` for a session that must exist."""
        return cls.open(name, create=False, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owner.here:
            with self._turns:
                self._resources.__exit__(kind, error, trace)

    @property
    def name(self) -> str:
        return self._parts.header.name

    @property
    def tokens(self) -> tuple[int, ...]:
        """Everything said so far, prompts and replies."""
        return self._parts.steps.tokens

    @property
    def unfinished(self) -> bool:
        """Whether a turn was cut off; `go_on` finishes it."""
        return self._parts.steps.unfinished is not None

    @property
    def restored(self) -> Restored:
        """What opening had to compute again."""
        return self._parts.restored

    def say(
        self,
        prompt: str,
        *,
        max_new_tokens: int = DEFAULT_NEW_TOKENS,
        sampling: Sampling | None = None,
        chat_template: bool = True,
        prefill_chunk: int | None = None,
        on_text: OnText | None = None,
    ) -> SessionReply:
        """A message of the user and the model's reply, of at most `max_new_tokens`. Each new token is in the journal
        before `on_text` (0, text) hears of it, which may fork the session, but not go on with it, crop or close it.
        sampling: default that of the turn before, at first the most probable token. A turn that was cut off stays as it
        is."""
        check_count("max_new_tokens", max_new_tokens, TOKENS_MAX)
        if prefill_chunk is not None:
            check_count("prefill_chunk", prefill_chunk, TOKENS_MAX)
        if sampling is not None and not isinstance(sampling, Sampling):
            raise TypeError(f"sampling is of type {type(sampling).__name__}; it must be a Sampling")
        parts = self._parts
        with self._changing():
            before = parts.steps.tokens
            tokens = message_tokens(parts.tokenizer, prompt, before, parts.ends, chat_template=chat_template)
            check_context([len(before) + len(tokens)], max_new_tokens, parts.limit)
            parts.check_quota(len(before) + len(tokens) + max_new_tokens)
            adopted = parts.begin(tokens)
            watch = TurnWatch(parts.text_of, on_text)
            reply = parts.steps.say(
                tokens,
                max_new_tokens=max_new_tokens,
                sampling=sampling,
                chunk=prefill_chunk or 0,
                ends=parts.ends,
                adopted=adopted,
                on_token=watch.token,
            )
            parts.label()
        return watch.reply(reply.tokens, reply.reason, len(tokens) - adopted, adopted)

    def go_on(self, *, on_text: OnText | None = None) -> SessionReply:
        """Finishes a turn that was cut off; the reply has all its tokens, `on_text` hears the new ones."""
        parts = self._parts
        with self._changing():
            parts.begin(parts.steps.tokens)
            watch = TurnWatch(parts.text_of, on_text, parts.steps.said)
            reply = parts.steps.go_on(ends=parts.ends, on_token=watch.token)
            parts.label()
        return watch.reply(reply.tokens, reply.reason, 0, 0)

    def fork(self, name: str) -> None:
        """A new session that has all of this one; from here on each goes its own way. It is not open."""
        with self._changing():
            self._parts.fork(name)

    def crop(self, tokens: int) -> None:
        """Drops everything after the first `tokens` tokens, durably."""
        with self._changing():
            self._parts.steps.crop(tokens)

    def stats(self) -> StoreStats:
        """What was stored, moved and computed since the session was opened."""
        return self._parts.store.stats()

    @property
    def torn_nbytes(self) -> int:
        """Bytes at the journal's end that were no whole record when the session was opened, and were cut off."""
        return self._parts.torn_nbytes

    @property
    def journal_nbytes(self) -> int:
        """Bytes written to the journal since the session was opened."""
        return self._parts.journal.write_nbytes

    def close(self) -> None:
        """What the cards hold is on the volumes when this returns. May be called again. In a forked process, which owns
        nothing of it, this does nothing."""
        if self._owner.here:
            with self._turns:
                self._resources.close()

    def _changing(self) -> AbstractContextManager[bool]:
        """One call at a time, in the process that opened the session. UserError where it is closed."""
        self._owner.check()
        self._parts.steps.require_open()  # before the store is asked for anything, which is closed by then too
        return self._turns


def _folder(url: CardUrl) -> Path:
    folder = volume_folder(url)
    if folder is None:
        raise UserError(f"card {url.text}: a session needs a volume that stays; add ssd=FOLDER to the URL")
    return folder


def _check_all_there(folders: Sequence[Path]) -> None:
    """The journals lie in the first card's volume: in another one's, or beside volumes of which the first is not there,
    every session would seem to be missing, and K and V to be of none. Without another one, a session's K and V on the
    rest would be of some KV heads only, and go."""
    identity = read_identity(folders[0])
    if identity is not None and identity.card:
        raise VolumeMismatch(str(folders[0]), "card", wanted=0, found=identity.card)
    others = [(folder, read_identity(folder) is not None) for folder in folders[1:]]
    there, missing = ([folder for folder, found in others if found is wanted] for wanted in (True, False))
    if identity is None and there:
        raise UserError(
            f"{folders[0]} holds no volume, while {there[0]} is one of a store, whose first volume has the journals "
            "of its sessions. Is it mounted? For a new store name other folders"
        )
    if identity is not None and missing and SessionFolder(folders[0]).holds_any():
        raise UserError(
            f"{missing[0]} holds no volume, while {folders[0]} has sessions whose K and V lie on every card. Is it "
            "mounted? Where its drive is lost, `nearkv generate` without --session on these cards makes a new volume "
            "there; K and V are then computed again"
        )
