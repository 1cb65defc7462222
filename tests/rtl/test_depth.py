# SPDX-License-Identifier: Apache-2.0
"""Depth of logic, on netlists small enough to count by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tools.rtl.cells import Resources, Step, resources, timing
from tools.rtl.depth import CombinationalLoop, Depth, alone, through
from tools.rtl.netlist import Child, Netlist, Port, Variant

TOP, PART = Variant("top"), Variant("part", (("WIDTH", 1),))


def netlist(
    steps: list[tuple[int, int, int, int]],
    starts: tuple[int, ...] = (),
    ends: Mapping[int, str] | None = None,
    ports: Mapping[str, Port] | None = None,
    children: tuple[Child, ...] = (),
) -> Netlist:
    """Of nets 0 to 19; net n is called nN."""
    table = np.array(steps, np.int64).reshape(-1, 4)
    names = {net: f"n{net}" for net in range(20)}
    return Netlist(20, Resources(), dict(ports or {}), children, table, starts, dict(ends or {}), names)


def test_the_longest_of_two_ways_counts() -> None:
    found = netlist([(1, 2, 1, 0), (2, 3, 1, 0), (1, 3, 1, 5)], starts=(1,), ends={3: "q_reg"})
    assert alone(found) == Depth(2, 0)


def test_carry_cells_decide_between_ways_of_equal_levels() -> None:
    found = netlist([(1, 3, 1, 2), (2, 3, 1, 7)], starts=(1, 2), ends={3: "q_reg"})
    assert alone(found) == Depth(1, 7)


def test_logic_that_no_register_feeds_has_no_depth() -> None:
    assert alone(netlist([(1, 2, 1, 0)], ends={2: "q_reg"})) == Depth(0, 0)


def test_ports_are_registers_of_a_module_alone() -> None:
    ports = {"a": Port(True, (1,)), "y": Port(False, (3,))}
    assert alone(netlist([(1, 2, 1, 0), (2, 3, 1, 0)], ports=ports)) == Depth(2, 0)


def test_instances_are_registers_of_a_module_alone() -> None:
    child = Child("u", PART, {"a": Port(True, (2,)), "y": Port(False, (3,))})
    found = netlist([(1, 2, 1, 0), (3, 4, 2, 0)], starts=(1,), ends={4: "q_reg"}, children=(child,))
    assert alone(found) == Depth(2, 0)


def test_a_loop_is_refused() -> None:
    found = netlist([(1, 2, 1, 0), (2, 3, 1, 0), (3, 2, 1, 0)], starts=(1,))
    with pytest.raises(CombinationalLoop, match="2 nets"):
        alone(found)


def test_a_path_goes_through_modules() -> None:
    """x_reg, one level, into u: two levels, out again, one level, y_reg: four levels; another ends in u after two."""
    part = netlist(
        [(1, 2, 1, 0), (2, 3, 1, 3), (1, 4, 1, 0)],
        ends={4: "inner_reg"},
        ports={"a": Port(True, (1,)), "y": Port(False, (3,))},
    )
    child = Child("u", PART, {"a": Port(True, (6,)), "y": Port(False, (7,))})
    top = netlist([(5, 6, 1, 0), (7, 8, 1, 0)], starts=(5,), ends={8: "y_reg"}, children=(child,))
    routes = through({TOP: top, PART: part}, TOP)
    assert routes["top"].depth == Depth(4, 3)
    assert (routes["top"].source, routes["top"].target) == ("n5", "y_reg")
    assert [depth.levels for depth, _ in routes["top"].stops] == [0, 1, 2, 3, 4]
    assert [name for _, name in routes["top"].stops] == ["n5", "u.n1", "u.n2", "u.n3", "n8"]
    assert routes["part"].depth == Depth(2, 0)
    assert routes["part"].target == "u.inner_reg"


def test_an_input_that_is_an_output_connects_outside() -> None:
    part = netlist([], ports={"a": Port(True, (1,)), "y": Port(False, (1,))})
    child = Child("u", PART, {"a": Port(True, (6,)), "y": Port(False, (7,))})
    top = netlist([(5, 6, 1, 0), (7, 8, 1, 0)], starts=(5,), ends={8: "y_reg"}, children=(child,))
    assert through({TOP: top, PART: part}, TOP)["top"].depth == Depth(2, 0)


def test_an_output_with_two_names_connects_to_both() -> None:
    part = netlist([(1, 2, 1, 0)], starts=(1,), ports={"y": Port(False, (2,)), "z": Port(False, (2,))})
    child = Child("u", PART, {"y": Port(False, (6,)), "z": Port(False, (7,))})
    top = netlist([(6, 8, 1, 0), (7, 9, 2, 0)], ends={8: "y_reg", 9: "z_reg"}, children=(child,))
    route = through({TOP: top, PART: part}, TOP)["top"]
    assert (route.depth, route.target) == (Depth(3, 0), "z_reg")


def test_ports_of_the_top_start_and_end_paths() -> None:
    ports = {"a": Port(True, (1,)), "y": Port(False, (2,))}
    route = through({TOP: netlist([(1, 2, 1, 0)], ports=ports)}, TOP)["top"]
    assert (route.depth, route.source, route.target) == (Depth(1, 0), "n1", "y")


def test_instances_of_one_module_keep_their_nets_apart() -> None:
    part = netlist([(1, 2, 1, 0)], ends={2: "r_reg"}, ports={"a": Port(True, (1,))})
    children = tuple(Child(f"u{net}", PART, {"a": Port(True, (net,))}) for net in (6, 7))
    top = netlist([(5, 6, 1, 0), (6, 7, 1, 0)], starts=(5,), children=children)
    route = through({TOP: top, PART: part}, TOP)["part"]
    assert (route.depth, route.target) == (Depth(3, 0), "u7.r_reg")


def test_a_carry_chain_is_one_level_where_it_is_entered() -> None:
    inputs = {"CI": (1,), "CYINIT": (None,), "DI": (2, None, None, None), "S": (None, 3, None, None)}
    steps = set(timing("CARRY4", inputs, {"O": (10, 11, 12, 13), "CO": (20, 21, 22, 23)}, {}).steps)
    assert Step(1, 23, 0, 1) in steps
    assert Step(1, 10, 0, 1) in steps
    assert Step(2, 20, 1, 1) in steps
    assert {step.target for step in steps if step.source == 2} == {11, 12, 13, 20, 21, 22, 23}
    assert {step.target for step in steps if step.source == 3} == {11, 12, 13, 21, 22, 23}


def test_a_memory_of_luts_is_read_through_its_own_address() -> None:
    inputs = {"ADDRA": (1,), "ADDRH": (2,), "DIA": (3,), "WE": (4,), "WCLK": (5,)}
    way = timing("RAM64M8", inputs, {"DOA": (6,), "DOH": (7,)}, {})
    assert set(way.steps) == {Step(1, 6, 1), Step(2, 7, 1)}
    assert set(way.ends) == {1, 2, 3, 4}


def test_a_register_ends_one_path_and_starts_another() -> None:
    way = timing("FDRE", {"D": (1,), "CE": (2,), "R": (3,), "C": (4,)}, {"Q": (5,)}, {})
    assert (way.steps, way.starts, set(way.ends)) == ((), (5,), {1, 2, 3})


def test_a_multiplier_is_a_level() -> None:
    way = timing("DSP48E2", {"A": (1,), "B": (None,)}, {"P": (3, 4)}, {"AREG": "0" * 32})
    assert set(way.steps) == {Step(1, 3, 1), Step(1, 4, 1)}


def test_a_multiplier_with_registers_is_refused() -> None:
    with pytest.raises(ValueError, match="AREG in use"):
        timing("DSP48E2", {"A": (1,)}, {"P": (3,)}, {"AREG": "01", "PREG": "00"})


def test_an_unknown_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="CARRY8"):
        resources("CARRY8")
