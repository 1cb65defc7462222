# SPDX-License-Identifier: Apache-2.0
"""What a journal says, record by record. Pure; knows no file, no bytes (`record_payloads`) and not what follows from
all records together (`state`).

A journal begins with `Header`. Then come turns: `Turn` (how its tokens are chosen), perhaps `Adopted` (K and V that are
there already), `Prompt` (the tokens that one prefill computes), `Token` (a generated one each), `TurnEnd`. `Crop` drops
tokens from a length on. `Mark` says nothing but that what comes before it was on the medium.
"""

from __future__ import annotations

from dataclasses import dataclass

FORMAT = 1
TOKENS_MAX = 1 << 21
REASONS = ("end", "length", "cut")


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


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
