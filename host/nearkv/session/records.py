# SPDX-License-Identifier: Apache-2.0
"""What a journal says, record by record, and what a session is after all of them. Pure; knows no file and no page.

A journal begins with `Header`. Then come turns: `Turn` (how its tokens are chosen), perhaps `Adopted` (K and V that are
there already), `Prompt` (the tokens that one prefill computes), `Token` (a generated one each), `TurnEnd`. `Crop` drops
tokens from a length on. `Mark` says nothing but that what comes before it was on the medium.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from nearkv.session.frames import Frame

FORMAT = 1
TOKENS_MAX = 1 << 21
# Kind of a frame that is a mark.
MARK = 8
REASONS = ("end", "length", "cut")
_TOKEN = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


class JournalInvalid(ValueError):
    """A frame is whole but says what no journal says; the text names the record."""


@dataclass(frozen=True)
class Header:
    """`session` is unlike that of any other session ever; `model` as volumes record it; `created` is an ISO time.
    `weights` tells models of one name apart; empty where it is not known."""

    name: str
    tenant: str
    session: str
    model: str
    created: str
    format: int = FORMAT
    weights: str = ""


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. `temperature` 0: the most probable one. Else token number n of the session is drawn with a
    generator seeded by (`seed`, n), so that nothing but these numbers has to be kept."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (_number(self.temperature) and 0 <= self.temperature <= 100):
            raise ValueError(f"temperature = {self.temperature!r}; 0 (the most probable token) to 100 is allowed")
        if type(self.top_k) is not int or not 0 <= self.top_k <= TOKENS_MAX:
            raise ValueError(f"top_k = {self.top_k!r}; a whole number from 0 (all tokens) to {TOKENS_MAX} is allowed")
        if not (_number(self.top_p) and 0 < self.top_p <= 1):
            raise ValueError(f"top_p = {self.top_p!r}; above 0 and at most 1 is allowed")
        if type(self.seed) is not int or not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed = {self.seed!r}; 0 to 2**63 - 1 is allowed")


@dataclass(frozen=True)
class Turn:
    """A turn begins: how its tokens are chosen, how many at most; its prompt is computed `chunk` tokens at a time
    (0: at once)."""

    sampling: Sampling
    max_new_tokens: int
    chunk: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.sampling, Sampling):
            raise TypeError(f"sampling is of type {type(self.sampling).__name__}; it must be a Sampling")
        for name, least in (("max_new_tokens", 1), ("chunk", 0)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= TOKENS_MAX:
                raise ValueError(f"{name} = {value!r}; a whole number from {least} to {TOKENS_MAX} is allowed")


@dataclass(frozen=True)
class Prompt:
    """Tokens that one prefill computes, after the last token of the turn before."""

    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Adopted:
    """The first `tokens` of the next prompt have K and V from a session that began alike."""

    tokens: int


@dataclass(frozen=True)
class Token:
    """A generated token."""

    token: int


@dataclass(frozen=True)
class TurnEnd:
    """`reason`: an "end" token, the "length" that was allowed, or "cut": broken off, perhaps before any token."""

    reason: str


@dataclass(frozen=True)
class Crop:
    """Only the first `length` tokens remain, and no turn is under way."""

    length: int


@dataclass(frozen=True)
class Mark:
    """Everything before it was on the medium when it was written, so that a bad record there is damage."""


Record = Header | Turn | Adopted | Prompt | Token | TurnEnd | Crop | Mark


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


def encode(record: Record) -> tuple[int, bytes]:
    """(kind, payload) of a frame."""
    if isinstance(record, Header):
        return 1, _json(asdict(record))
    if isinstance(record, Turn):
        return 2, _json(asdict(record))
    if isinstance(record, Prompt):
        return 3, struct.pack(f"<{len(record.tokens)}I", *record.tokens)
    if isinstance(record, Token):
        return 4, _TOKEN.pack(record.token)
    if isinstance(record, TurnEnd):
        return 5, record.reason.encode()
    if isinstance(record, Adopted):
        return 7, _LENGTH.pack(record.tokens)
    if isinstance(record, Mark):
        return MARK, b""
    return 6, _LENGTH.pack(record.length)


def decode(frame: Frame) -> Record:
    """JournalInvalid for a payload that is none of its kind."""
    try:
        return _DECODERS[frame.kind](frame.payload)
    except KeyError:
        raise JournalInvalid(f"record {frame.serial} has the unknown kind {frame.kind}") from None
    except (ValueError, TypeError, struct.error, RecursionError) as error:
        raise JournalInvalid(f"record {frame.serial} of kind {frame.kind}: {error}") from error


def replay(records: Iterable[Record]) -> SessionState:
    """The state after all records, in their order. JournalInvalid where one does not follow from those before."""
    state = SessionState()
    for record in records:
        state.take(record)
    return state


def _header(payload: bytes) -> Header:
    values = _object(payload, Header)
    if values.get("format") != FORMAT:
        raise ValueError(f"journal format {values.get('format')!r}; this version reads {FORMAT}")
    if not all(isinstance(value, str) for name, value in values.items() if name != "format"):
        raise ValueError("a header's values are text")
    return Header(**values)


def _turn(payload: bytes) -> Turn:
    values = _object(payload, Turn)
    if not isinstance(values["sampling"], dict):
        raise ValueError("a turn without sampling")
    return Turn(**values | {"sampling": Sampling(**values["sampling"])})


def _prompt(payload: bytes) -> Prompt:
    if not payload or len(payload) % 4:
        raise ValueError(f"{len(payload)} bytes of tokens")
    return Prompt(struct.unpack(f"<{len(payload) // 4}I", payload))


def _mark(payload: bytes) -> Mark:
    if payload:
        raise ValueError(f"a mark of {len(payload)} bytes")
    return Mark()


def _turn_end(payload: bytes) -> TurnEnd:
    reason = payload.decode()
    if reason not in REASONS:
        raise ValueError(f"a turn ended by {reason!r}")
    return TurnEnd(reason)


_DECODERS: dict[int, Callable[[bytes], Record]] = {
    1: _header,
    2: _turn,
    3: _prompt,
    4: lambda payload: Token(_TOKEN.unpack(payload)[0]),
    5: _turn_end,
    6: lambda payload: Crop(_LENGTH.unpack(payload)[0]),
    7: lambda payload: Adopted(_LENGTH.unpack(payload)[0]),
    MARK: _mark,
}


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()


def _object(payload: bytes, kind: type[Header] | type[Turn]) -> dict[str, Any]:
    values = json.loads(payload)
    names = {f.name for f in fields(kind)}
    # The first journals have no `weights`.
    if not isinstance(values, dict) or set(values) not in (names, names - {"weights"}):
        raise ValueError(f"an object with {', '.join(sorted(names))} is expected")
    return values


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
