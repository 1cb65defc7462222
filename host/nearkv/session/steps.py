# SPDX-License-Identifier: Apache-2.0
"""One open session: its journal, and a network whose cache follows it. The order of the steps; no model and no file.

A token counts once it is in the journal. The cache may be behind the journal or before it, never beside it: it is cut
before the journal is, and grows before the journal names what came of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from nearkv.errors import UserError
from nearkv.session.fit import check_fit
from nearkv.session.journal import Journal
from nearkv.session.journal_reading import read_journal
from nearkv.session.plan import plan
from nearkv.session.records import TOKENS_MAX, Adopted, Crop, Prompt, Record, Sampling, Token, Turn, TurnEnd
from nearkv.session.state import SessionState
from nearkv.token_ids import check_ids

OnToken = Callable[[int], None]


class Network(Protocol):
    """A model with the cache of one sequence."""

    @property
    def cached(self) -> int:
        """Tokens whose K and V the cache holds."""
        ...

    @property
    def held(self) -> Sequence[int | None]:
        """Which tokens these are, None where it is not known."""
        ...

    def guard(self, before_durable: Callable[[], None]) -> None:
        """`before_durable` is called before K and V become durable that are not yet; what it raises keeps them from
        it."""
        ...

    def crop(self, tokens: int) -> None:
        """The cache keeps tokens [0, tokens), durably."""
        ...

    def forward(self, tokens: Sequence[int]) -> Any:
        """Computes K and V of the tokens behind the cached ones; what `choose` needs to choose the next token."""
        ...

    def choose(self, scores: Any, sampling: Sampling, position: int) -> int:
        """Token number `position` of the session: the same one whenever all three are the same."""
        ...

    def flush(self) -> None:
        """All K and V computed so far are durable when this returns."""
        ...


@dataclass(frozen=True)
class Restored:
    """What opening did: tokens whose K and V were `stored`, those `recomputed`, and the cached ones `dropped` since the
    journal does not know them or their prefill was not whole. `lost`: stored ones with bad pages, and the `reason`."""

    stored: int
    recomputed: int
    dropped: int
    lost: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Reply:
    """The tokens of one turn, and why it ended: "end" or "length"."""

    tokens: tuple[int, ...]
    reason: str


class SessionSteps:
    """A context manager. Whatever fails, what the journal says stays true, and the next call starts from there."""

    def __init__(self, journal: Journal, state: SessionState, network: Network) -> None:
        """`state` is what the journal held when it was opened."""
        self._journal, self._state, self._network = journal, state, network
        self._taken = journal.records
        # A record is written and taken as one, whichever thread looks at the tokens meanwhile.
        self._recording = threading.RLock()
        # K and V must not outlive the tokens that they are of.
        network.guard(journal.settle)
        self._fits = self._in_step = False
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self._reconciled().tokens)

    @property
    def turns(self) -> int:
        """Turns that have ended."""
        return self._reconciled().turns

    @property
    def said(self) -> tuple[int, ...]:
        """Tokens that the turn under way has given so far."""
        state = self._reconciled()
        return tuple(state.tokens[state.prompt_end :]) if state.generated else ()

    @property
    def untouched(self) -> bool:
        """Whether nothing has ever been said, nor begun to be said."""
        return not self.tokens and self._state.turn is None and not self._state.turns

    @property
    def unfinished(self) -> Turn | None:
        """The turn that was under way when the session was last closed or cut off, if its prompt is known."""
        state = self._reconciled()
        return state.turn if state.prompt_end else None

    def restore(self) -> Restored:
        """Brings the cache to where the journal is, computing again what is missing in the pieces it was computed in.

        Everything else does this first where it is needed.
        """
        self._require_fit()
        had = self._network.cached
        todo = plan(self._state, had)
        self._in_step = False
        if had > todo.keep:
            self._network.crop(todo.keep)
        for forward in todo.forwards:
            self._network.forward(self._state.tokens[forward.first : forward.end])
        self._in_step = True
        return Restored(todo.keep, self._state.cached - todo.keep, max(0, had - todo.keep))

    def say(
        self,
        prompt: Sequence[int],
        *,
        max_new_tokens: int,
        sampling: Sampling | None = None,
        chunk: int = 0,
        ends: Collection[int] = (),
        adopted: int = 0,
        on_token: OnToken | None = None,
    ) -> Reply:
        """A turn: the tokens of `prompt`, then up to `max_new_tokens` new ones, the last perhaps one of `ends`.

        A turn that is still under way is ended as it is. `adopted`: in an empty session, so many of the prompt's tokens
        have K and V in the cache already. `on_token` is called when a token is in the journal; it may look at the
        session, but not go on with it, crop or close it.
        """
        self.require_open()
        turn = Turn(sampling or self._state.last_sampling, max_new_tokens, chunk)
        tokens = tuple(check_ids(prompt, "the prompt has the token"))
        if not tokens:
            raise UserError("the prompt has no tokens")
        if adopted and (self._state.tokens or not 0 < adopted < len(tokens)):
            raise UserError(f"adopted = {adopted}; less than the {len(tokens)} tokens of a first prompt is allowed")
        self._require_fit(tokens if adopted else self._state.tokens)
        size = len(self._state.tokens) + len(tokens) + max_new_tokens
        if size > TOKENS_MAX:
            raise UserError(f"the session would have {size} tokens; {TOKENS_MAX} are allowed")
        borders = (TurnEnd("cut"), turn, Adopted(adopted), Prompt(tokens), TurnEnd("length"))
        self._journal.check_room(borders, max_new_tokens)
        if self._state.turn is not None:
            self._write(TurnEnd("cut"))
        self._write(turn)
        if adopted:
            self._write(Adopted(adopted))
        self._write(Prompt(tokens))
        return self.go_on(ends=ends, on_token=on_token)

    def go_on(self, *, ends: Collection[int] = (), on_token: OnToken | None = None) -> Reply:
        """Finishes the turn under way; the reply has all its tokens. UserError when there is none."""
        self._require_fit()
        turn = self.unfinished
        if turn is None:
            raise UserError("no turn is under way in this session; give a prompt")
        if not self._in_step:
            self.restore()
        state = self._state
        while (reason := self._reason(turn, ends)) is None:
            self._in_step = False
            scores = self._network.forward([state.tokens[-1]]) if state.generated else self._prefill(turn)
            token = self._network.choose(scores, turn.sampling, len(state.tokens))
            self._write(Token(token))
            self._in_step = True
            if on_token is not None:
                count = len(state.tokens)
                on_token(token)
                self.require_open()
                if self._state is not state or state.turn is not turn or len(state.tokens) != count:
                    raise UserError("what was called with a token changed the session; the turn was still under way")
        reply = Reply(tuple(state.tokens[state.prompt_end :]), reason)
        self._write(TurnEnd(reason))
        return reply

    def crop(self, length: int) -> None:
        """Drops all tokens from `length` on, durably; a turn under way ends."""
        self._require_fit()
        if type(length) is not int or not 0 <= length <= len(self._state.tokens):
            raise UserError(f"the session cannot be cropped to {length!r}; it has {len(self._state.tokens)} tokens")
        cuts_prefill = any(p.first < length < p.end for p in self._state.prefills)
        if cuts_prefill and self._network.cached < length:
            self.restore()  # while the prefill can still be computed whole
        # The cache first: what it held of the tokens that go must not be taken for that of tokens to come.
        self._in_step = False
        if self._network.cached > length:
            self._network.crop(length)
        self._write(Crop(length))

    def close(self) -> None:
        """Everything said is durable; the cache's owner stores what it holds. May be called again."""
        if not self._closed:
            self._closed = True
            self._journal.close()

    def _prefill(self, turn: Turn) -> Any:
        first, end = self._state.cached, self._state.prompt_end
        step = turn.chunk or end - first
        scores = None
        for begin in range(first, end, step):
            scores = self._network.forward(self._state.tokens[begin : min(end, begin + step)])
        # A prompt is computed once: the part of it that is no whole unit would take a whole prefill to have again.
        self._network.flush()
        return scores

    def _reason(self, turn: Turn, ends: Collection[int]) -> str | None:
        state = self._state
        if state.generated and state.tokens[-1] in ends:
            return "end"
        return "length" if state.generated >= turn.max_new_tokens else None

    def _write(self, record: Record) -> None:
        with self._recording:
            self._journal.append(record)
            self._state.take(record)  # no record that this refuses may come here: the journal would hold it for good
            self._taken += 1

    def require_open(self) -> None:
        """UserError for a session that was closed."""
        if self._closed:
            raise UserError("the session is closed; open it again")
        self._reconciled()

    def _reconciled(self) -> SessionState:
        """Ctrl-C may fall between a record's write and its being taken: then the journal is right."""
        with self._recording:
            if self._taken != self._journal.records and not self._journal.failed:
                self._state, self._in_step = read_journal(self._journal.path).state, False
                self._taken = self._journal.records
            return self._state

    def _require_fit(self, tokens: Sequence[int] | None = None) -> None:
        """JournalMisfit, before anything is changed, where the cache is of other tokens than the journal (or `tokens`,
        that the journal has next)."""
        self.require_open()
        if not self._fits:
            check_fit(self._journal.path, self._network.held, self._state.tokens if tokens is None else tokens)
            self._fits = True
