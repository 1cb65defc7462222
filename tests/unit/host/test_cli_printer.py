# SPDX-License-Identifier: Apache-2.0
"""Texts of a batch appear in the order of the prompts, each whole, the first unfinished one live."""

from __future__ import annotations

from nearkv.cli.printer import TextPrinter


class Screen:
    def __init__(self, *prompts: str) -> None:
        self.shown = ""
        self.printer = TextPrinter(self.write, prompts)

    def write(self, text: str) -> None:
        self.shown += text


def test_one_prompt_is_only_its_text() -> None:
    screen = Screen("why")
    screen.printer.text(0, "be")
    assert screen.shown == "be"
    screen.printer.text(0, "cause")
    screen.printer.end(0)
    screen.printer.close()
    assert screen.shown == "because\n"


def test_a_text_that_ends_its_line_gets_no_second_line_end() -> None:
    screen = Screen("why")
    screen.printer.text(0, "so\n")
    screen.printer.end(0)
    assert screen.shown == "so\n"


def test_later_prompts_wait_for_their_turn() -> None:
    screen = Screen("first", "second", "third")
    screen.printer.text(0, "a")
    screen.printer.text(1, "b")
    screen.printer.text(2, "c")
    assert screen.shown == "[1/3] first\na"
    screen.printer.end(1)
    screen.printer.text(0, "A")
    assert screen.shown == "[1/3] first\naA"
    screen.printer.end(0)
    assert screen.shown == "[1/3] first\naA\n\n[2/3] second\nb\n\n[3/3] third\nc"
    screen.printer.text(2, "C")
    screen.printer.end(2)
    assert screen.shown.endswith("[3/3] third\ncC\n")


def test_a_text_may_be_empty() -> None:
    screen = Screen("first", "second")
    screen.printer.end(1)
    screen.printer.end(0)
    assert screen.shown == "[1/2] first\n\n[2/2] second\n"


def test_long_prompts_are_cut_in_the_heading() -> None:
    screen = Screen("word\n" * 40, "second")
    screen.printer.text(0, "x")
    heading = screen.shown.splitlines()[0]
    assert heading.startswith("[1/2] word word")
    assert heading.endswith("\u2026")
    assert len(heading) <= 80


def test_close_ends_an_open_line() -> None:
    screen = Screen("why")
    screen.printer.text(0, "because")
    screen.printer.close()
    screen.printer.close()
    assert screen.shown == "because\n"
