# SPDX-License-Identifier: Apache-2.0
"""What a session is after all records of its journal, and which record may follow which. Pure; knows no file, no bytes
and no page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nearkv.session.records import (
    TOKENS_MAX,
    Adopted,
    Crop,
    Header,
    JournalInvalid,
    Prompt,
    Record,
    Sampling,
    Token,
    Turn,
    TurnEnd,
)


@dataclass(frozen=True)
class Prefill:
    """Tokens [first, end) had their K and V from one prefill, `chunk` at a time (0: at once). A crop may have taken the
    end of it away: what was computed with tokens that are gone cannot be computed again to the last bit."""

    first: int
    end: int
    chunk: int


@dataclass
class SessionState:
    """All tokens, the turn under way, and where K and V of each token came from.

    The K and V of tokens [0, `cached`) have been computed: the first `adopted` by another session, those in `prefills`
    together, each other one in a step of its own. The newest token is never among them, since only the step after it
    computes them. `adopting` tokens are adopted when the prompt that has them comes.
    """

    header: Header | None = None
    tokens: list[int] = field(default_factory=list)
    turn: Turn | None = None
    prompt_end: int = 0
    cached: int = 0
    adopted: int = 0
    adopting: int = 0
    prefills: list[Prefill] = field(default_factory=list)
    turns: int = 0
    last_sampling: Sampling = field(default_factory=Sampling)

    @property
    def generated(self) -> int:
        """Tokens that the turn under way has given so far."""
        return len(self.tokens) - self.prompt_end if self.turn is not None and self.prompt_end else 0

    def take(self, record: Record) -> None:
        """JournalInvalid, and nothing taken, where the record cannot follow what came before."""
        if (self.header is None) != isinstance(record, Header):
            raise JournalInvalid(f"{type(record).__name__} at the wrong place; a journal has one header, at its start")
        if isinstance(record, Header):
            self.header = record
        elif isinstance(record, Turn):
            self._require(self.turn is None, record, "while a turn is under way")
            self.turn, self.prompt_end, self.last_sampling, self.adopting = record, 0, record.sampling, 0
        elif isinstance(record, Adopted):
            self._require(self.turn is not None and not self.tokens, record, "behind other tokens")
            self.adopting = record.tokens
        elif isinstance(record, Prompt):
            self._require(self.turn is not None and not self.prompt_end, record, "where no prompt can be")
            self._require(len(record.tokens) > self.adopting, record, "shorter than what it shares")
            self._room(len(record.tokens))
            self.tokens.extend(record.tokens)
            if self.adopting:
                self.cached = self.adopted = self.adopting
                self.adopting = 0
            self.prompt_end = len(self.tokens)
        elif isinstance(record, Token):
            self._require(self.turn is not None and self.prompt_end > 0, record, "before any prompt")
            assert self.turn is not None
            self._room(1)
            if not self.generated:
                self.prefills.append(Prefill(self.cached, self.prompt_end, self.turn.chunk))
            self.cached = len(self.tokens)
            self.tokens.append(record.token)
        elif isinstance(record, TurnEnd):
            self._require(self.turn is not None, record, "outside a turn")
            self._require(self.generated > 0 or record.reason == "cut", record, "without a token")
            self.turn, self.turns, self.prompt_end, self.adopting = None, self.turns + 1, 0, 0
        elif isinstance(record, Crop):
            self._require(record.length <= len(self.tokens), record, f"with {len(self.tokens)} tokens")
            del self.tokens[record.length :]
            self.turn, self.prompt_end, self.cached = None, 0, min(self.cached, record.length)
            self.adopted, self.adopting = min(self.adopted, record.length), 0
            self.prefills = [
                Prefill(p.first, min(p.end, record.length), p.chunk) for p in self.prefills if p.first < record.length
            ]

    def _room(self, tokens: int) -> None:
        if len(self.tokens) + tokens > TOKENS_MAX:
            raise JournalInvalid(f"more than {TOKENS_MAX} tokens")

    def _require(self, fits: bool, record: Record, where: str) -> None:
        if not fits:
            raise JournalInvalid(f"{type(record).__name__} {where}")


def replay(records: Iterable[Record]) -> SessionState:
    """The state after all records, in their order. JournalInvalid where one does not follow from those before."""
    state = SessionState()
    for record in records:
        state.take(record)
    return state
