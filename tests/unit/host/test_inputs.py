# SPDX-License-Identifier: Apache-2.0
"""What is asked for is checked before anything is opened, and each refusal names value and limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearkv.errors import UserError
from nearkv.inputs import check_cards, check_context, check_count, check_prompts, tokenize


@pytest.mark.parametrize("bad", ["", "  \n\t", "\u2003"])
def test_empty_prompts_are_refused_by_number(bad: str) -> None:
    with pytest.raises(UserError, match="prompt 2 of 2 is empty"):
        check_prompts(["fine", bad])


def test_a_batch_needs_a_prompt() -> None:
    with pytest.raises(UserError, match="no prompts"):
        check_prompts([])


@pytest.mark.parametrize("bad", ["one string", [b"bytes"], [None]])
def test_prompts_of_other_types_are_type_errors(bad: Any) -> None:
    with pytest.raises(TypeError, match="string"):
        check_prompts(bad)


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(UserError, match="not UTF-8 text at character 3"):
        check_prompts(["abc\udcff"])


@pytest.mark.parametrize("bad", [0, -1])
def test_counts_below_one_are_refused(bad: int) -> None:
    with pytest.raises(UserError, match=f"max_new_tokens is {bad}; it must be at least 1"):
        check_count("max_new_tokens", bad)


@pytest.mark.parametrize("bad", [1.0, "1", True, None])
def test_counts_that_are_no_whole_numbers_are_type_errors(bad: Any) -> None:
    with pytest.raises(TypeError, match="whole number"):
        check_count("threads", bad)


def test_cards_are_returned_parsed() -> None:
    urls = check_cards(["sw_emu:0", "sw_emu:1?dram=1G"])
    assert [(url.text, dict(url.options)) for url in urls] == [("sw_emu:0", {}), ("sw_emu:1?dram=1G", {"dram": "1G"})]


@pytest.mark.parametrize("bad", [["nosuch:0"], ["sw_emu"], [""], ["sw_emu:0?dram"]])
def test_unknown_urls_are_refused(bad: list[str]) -> None:
    with pytest.raises(UserError, match="card URL"):
        check_cards(bad)


def test_a_card_is_given_once() -> None:
    with pytest.raises(UserError, match="same card"):
        check_cards(["sw_emu:0", "sw_emu:1", "sw_emu:0?dram=1G"])


def test_two_cards_may_not_share_a_volume_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "volume")
    with pytest.raises(UserError, match="same volume folder"):
        check_cards([f"sw_emu:0?ssd={tmp_path}/volume", f"sw_emu:1?ssd={tmp_path}/./link"])


def test_two_cards_may_not_share_a_waveform_file(tmp_path: Path) -> None:
    check_cards([f"hw_emu:0?wave={tmp_path}/0", f"hw_emu:1?wave={tmp_path}/1&ssd={tmp_path}/0"])
    with pytest.raises(UserError, match="same waveform file"):
        check_cards([f"hw_emu:0?wave={tmp_path}/run", f"hw_emu:1?wave={tmp_path}/./run"])


def test_cards_must_be_a_sequence_with_something_in_it() -> None:
    with pytest.raises(UserError, match="no cards"):
        check_cards([])
    with pytest.raises(TypeError, match="sequence"):
        check_cards("sw_emu:0")


def test_the_context_limit_counts_prompt_and_new_tokens() -> None:
    check_context([10, 90], 10, 100)
    check_context([10, 90], 10**9, None)
    with pytest.raises(UserError, match=r"prompt 2 of 2 has 90 tokens.*11 new.*101 in all.*limit is 100"):
        check_context([10, 90], 11, 100)
    with pytest.raises(UserError, match="prompt 1 of 1 has no tokens"):
        check_context([0], 1, 100)


class Tokenizer:
    """One token per character; special tokens are a leading 1."""

    def __init__(self, template: str | None) -> None:
        self.chat_template = template
        self.padding_side = "right"
        self.pad_token: str | None = None
        self.eos_token = "</s>"

    def apply_chat_template(
        self, messages: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert not tokenize
        assert add_generation_prompt
        return "".join(f"<{message['role']}>{message['content']}" for message in messages)

    def __call__(self, texts: list[str], *, return_tensors: str, padding: bool, add_special_tokens: bool) -> Any:
        assert (return_tensors, padding, self.padding_side, self.pad_token) == ("pt", len(texts) > 1, "left", "</s>")
        ids = [[1] * add_special_tokens + [ord(c) for c in text] for text in texts]
        width = max(map(len, ids))
        return {
            "input_ids": np.array([[0] * (width - len(row)) + row for row in ids]),
            "attention_mask": np.array([[0] * (width - len(row)) + [1] * len(row) for row in ids]),
        }


def test_a_template_that_fails_is_told_with_the_way_round_it() -> None:
    class Broken(Tokenizer):
        def apply_chat_template(self, *_: Any, **__: Any) -> str:
            raise ZeroDivisionError("division by zero")

    with pytest.raises(UserError, match=r"chat template fails: division by zero; .*--raw"):
        tokenize(Broken("a template"), ["ab"], chat_template=True)


def test_counts_above_their_limit_are_refused() -> None:
    assert check_count("threads", 1024, 1024) == 1024
    with pytest.raises(UserError, match="threads is 1025; it must be at most 1024"):
        check_count("threads", 1025, 1024)


def test_prompts_become_messages_where_there_is_a_template() -> None:
    inputs = tokenize(Tokenizer("a template"), ["ab", "c"], chat_template=True)
    assert inputs.lengths == (8, 7)
    assert bytes(inputs.ids[1].tolist()) == b"\0<user>c"


@pytest.mark.parametrize(("template", "wanted"), [("a template", False), (None, True)])
def test_other_prompts_stay_as_they_are_with_special_tokens(template: str | None, wanted: bool) -> None:
    inputs = tokenize(Tokenizer(template), ["ab", "c"], chat_template=wanted)
    assert inputs.lengths == (3, 2)
    assert inputs.ids.tolist() == [[1, 97, 98], [0, 1, 99]]
    assert inputs.mask.tolist() == [[1, 1, 1], [0, 1, 1]]
