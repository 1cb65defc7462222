# SPDX-License-Identifier: Apache-2.0
"""The kernel on Icarus with X wherever the contract gives no meaning: registers, memories, padding, gaps, idle buses.

No output may ever be unknown, and what sound and faulty lists leave is the model's. A copy of the RTL with a check in
each module tells the same of the handshakes inside.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_emulation.model import ModelKernel
from nearkv_emulation.rtl_build import rtl_folder

from tests.support import four_state
from tests.support.jobs import IDENTIFY, Image, Job, Segment, build, comparable, poke
from tests.support.random_jobs import half, random_image, random_q, random_state
from tests.support.rtl_compare import blank_failed_writes
from tests.support.rtl_tools import needs_icarus, patient

pytestmark = [needs_icarus, patient]

BENCH = Path(__file__).parent / "bench" / "four_state.v"
# Nets that may not be unknown, in any module, once the reset is over. READY may be, while there is no VALID.
HANDSHAKE = re.compile(
    r"^    (?:(?:input|output) )?(?:wire|reg) (?:\[[^\]]*\] )?"
    r"(\w*valid(?:_reg)?|state_reg|busy_reg|owed_reg|go|fire|take|put|push|pull|emit|issue)(?:,| =|;|$)",
    re.MULTILINE,
)


def guarded(text: str) -> str:
    """A module with a check of its own handshakes at its end; one without a clock stays as it is."""
    names = list(dict.fromkeys(HANDSHAKE.findall(text)))
    if not names or not re.search(r"^    (?:input wire|wire) clk\b", text, re.MULTILINE):
        return text
    shown = ", ".join(f'"{name} %b "' for name in names).replace('", "', "")
    check = (
        "    always @(negedge clk)\n"
        f"    if (four_state.started && ^{{{', '.join(names)}}} === 1'bx && !four_state.told) begin\n"
        "        four_state.told = 1'b1;\n"
        f'        $display("UNKNOWN inside %m: {shown[1:-1]}", {", ".join(names)});\n'
        "    end\n"
    )
    return text.replace("\nendmodule", f"\n{check}\nendmodule")


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("four_state")
    return compiled(folder, {path.name: path.read_text() for path in rtl_folder().glob("*.v")})


def compiled(folder: Path, sources: dict[str, str]) -> Path:
    """The bench around these modules, guarded."""
    copies = []
    for name, text in sources.items():
        copies.append(folder / name)
        copies[-1].write_text(guarded(text))
    command = ["iverilog", "-g2005", f"-I{rtl_folder()}", "-s", "four_state", "-o", str(folder / "sim")]
    done = subprocess.run([*command, str(BENCH), *map(str, copies)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "sim"


def run(simulator: Path, folder: Path, images: Sequence[Image]) -> None:
    """All lists in one simulation, each against the model."""
    lines = []
    for i, image in enumerate(images):
        four_state.save(folder / f"before{i}", image.memory, four_state.meant(image))
        hole = image.base + image.holes[0][1] if image.holes else 0
        names = f"{folder}/before{i} {folder}/after{i}"
        lines.append(f"{names} {image.kv:x} {image.ctl:x} {image.out:x} {hole:x}\n")
    (folder / "lists").write_text("".join(lines))
    command = ["vvp", "-n", str(simulator), f"+lists={folder}/lists"]
    told = subprocess.run(command, capture_output=True, text=True).stdout
    assert "UNKNOWN" not in told, told[-2000:]
    assert f"ENDED {len(images)} lists" in told, told[-2000:]
    for i, image in enumerate(images):
        same(image, folder / f"after{i}")


def same(image: Image, path: Path) -> None:
    """Every byte that must have been written is known; every known byte is the model's."""
    got, known = four_state.load(path, len(image.memory))
    want = image.run(ModelKernel())
    missing = np.flatnonzero(four_state.written(image, want) & ~known)
    assert not len(missing), f"{len(missing)} bytes are unknown, the first at {image.base + int(missing[0]):#x}"
    want, got = comparable(image, want), comparable(image, np.where(known, got, want))
    for memory in (want, got):
        blank_failed_writes(image, memory)
    differ = np.flatnonzero((want != got) & known)
    assert not len(differ), f"{len(differ)} bytes differ, the first at {image.base + int(differ[0]):#x}"


def mixed(seed: int, head_size: int, rows: int = 3, tokens: int = 19) -> Image:
    """Three jobs: checked pages, window, state in, new rows and tail; plain segments and a state between; identity."""
    rng = np.random.default_rng(seed)

    def segment(first: int, count: int, checked: bool) -> Segment:
        return Segment(first, half(rng, count, head_size), half(rng, count, head_size), checked, 128 if checked else 0)

    q = random_q(rng, rows, head_size)
    limits = [(0, tokens + 3)]
    new = Segment(tokens, half(rng, 3, head_size), half(rng, 3, head_size))
    state = random_state(rng, rows, head_size)
    first = Job(q, limits, 0.1, [segment(0, tokens, True)], new, True, 9, state, True)
    second = Job(
        q, limits, 0.1, [segment(0, 5, False), segment(5, 2, False)], new, state_in=0, state_out=True, raw=True
    )
    return build([first, second, IDENTIFY])


def spoilt(image: Image) -> Image:
    """The image with a NaN in the first row of K of its first job; the page's checksum no longer fits either."""
    k_addr = rm.SEGMENT.unpack(image.memory[image.at(image.placed[0]["segments_addr"]) :][:64].tobytes())["k_addr"]
    return poke(image, k_addr, b"\x00\x7e")


def unreachable(image: Image, address: int) -> Image:
    """The image with one word that no master can reach."""
    at = image.at(address)
    return Image(**{**vars(image), "holes": tuple((master, at, at + rm.WORD_BYTES) for master in range(3))})


def test_no_unknown_leaves_the_kernel(simulator: Path, tmp_path: Path) -> None:
    """A list with a bit of everything, a fault, and the list again."""
    image = mixed(1, 80)
    run(simulator, tmp_path, [image, spoilt(image), image])


# (module, what stands there, what is planted, what must tell of it)
PLANTED = (
    ("fifo", "head_valid_reg <= 1'b0;\n        end", "end", "UNKNOWN handshake"),
    ("axi_read_stream", "owed_reg <= 12'd0;", "", "UNKNOWN inside"),
    ("control_registers", "isr_reg <= 2'd0;", "", "UNKNOWN handshake"),
    ("state_load", "padding ? 50'd0 : ", "", "UNKNOWN word"),
    ("weight_align", "s_visible ? s_mantissa : 25'd0", "s_mantissa", "UNKNOWN word"),
)


@pytest.mark.soak
@pytest.mark.parametrize(("module", "there", "planted", "told"), PLANTED)
def test_a_planted_unknown_is_told(module: str, there: str, planted: str, told: str, tmp_path: Path) -> None:
    sources = {path.name: path.read_text() for path in rtl_folder().glob("*.v")}
    assert sources[f"{module}.v"].count(there) == 1
    sources[f"{module}.v"] = sources[f"{module}.v"].replace(there, planted)
    with pytest.raises(AssertionError, match=told):
        run(compiled(tmp_path, sources), tmp_path, [mixed(1, 80)])


@pytest.mark.soak
@pytest.mark.parametrize("head_size", rm.HEAD_SIZES)
def test_no_unknown_leaves_the_kernel_whatever_ends_a_list(simulator: Path, head_size: int, tmp_path: Path) -> None:
    image = mixed(head_size, head_size, rows=9, tokens=33)
    fields = image.placed[0]
    words = [fields[name] for name in ("q_addr", "limits_addr", "segments_addr", "state_in", "new_v_addr", "out_addr")]
    words += [image.ctl, image.base + 128]
    faulty = [unreachable(image, word) for word in words]
    run(simulator, tmp_path, [image, spoilt(image), *faulty, image])


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_no_unknown_leaves_the_kernel_on_random_lists(simulator: Path, seed: int, tmp_path: Path) -> None:
    images = [random_image(np.random.default_rng(7000 + 10 * seed + i), 150) for i in range(3)]
    run(simulator, tmp_path, images)
