# SPDX-License-Identifier: Apache-2.0
"""docs/rtl-modules.md is what fpga/rtl gives, and shows what the sources say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rtl_tools import needs_icarus, needs_pyverilog, patient
from tools.rtl import diagram, verilog

pytestmark = [needs_pyverilog, needs_icarus, patient]

CHILD = """module child (
    input wire [31:0] a,
    output wire [31:0] b
);
    assign b = a;
endmodule
"""
TOP = """module top (
    input wire [63:0] m_axi_kv_rdata,
    output wire flag
);
    wire [31:0] one;
    wire [31:0] two;
    wire [31:0] three = flag ? two : 32'd0;
    wire [31:0] four;
    child first (.a(m_axi_kv_rdata[31:0]), .b(two));
    child second (.a(three), .b(four));
    assign flag = four[0];
endmodule
"""


def test_the_page_is_what_is_generated() -> None:
    assert diagram.main(["--check"]) == 0


def test_a_drifted_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "rtl-modules.md"
    page.write_text(diagram.PAGE.read_text().replace("`array_row`", "`array_rows`"))
    monkeypatch.setattr(diagram, "PAGE", page)
    assert diagram.main(["--check"]) == 1
    assert "rtl-modules.md: not what fpga/rtl gives" in capsys.readouterr().err
    assert diagram.main([]) == 0
    assert diagram.main(["--check"]) == 0


def test_arrows_follow_assignments(tmp_path: Path) -> None:
    (tmp_path / "child.v").write_text(CHILD)
    (tmp_path / "top.v").write_text(TOP)
    modules = {module.name: module for module in verilog.read(tmp_path.glob("*.v"), tmp_path)}
    arrows = [line.strip() for line in diagram.page(modules, "top").splitlines() if "-->" in line]
    assert arrows == ["first -- 32 --> second", "m_axi_kv -- 32 --> first"]


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(SystemExit, match="--chek is no option"):
        diagram.main(["--chek"])
