# SPDX-License-Identifier: Apache-2.0
#
# One command for each wish. Every target sets up what it needs; nothing has to be typed before it.

PYTHON := .venv/bin/python
STAMP := .venv/.setup-done
PYNQ_STAMP := .venv-pynq/.setup-done
# Two threads that spin on one busy core are far slower than one; the tests run in two processes instead.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
TEST_WORKERS ?= 2
CXX_SOURCES := $(shell git ls-files 'fpga/hls/*.cpp' 'fpga/hls/*.hpp' 'fpga/hls/*.h' 'emulation/*.cpp' 'emulation/*.hpp' 'driver/*.cpp' 'tests/*.cpp' 2>/dev/null | grep -v -e regmap.hpp -e exp2_table.hpp)

.PHONY: help demo test test-pynq soak formal synth lint format contract diagram bench clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml tools/setup.sh
	@echo "setting up .venv (a few minutes the first time)"
	@tools/setup.sh
	@touch $@

$(PYNQ_STAMP): $(STAMP) tools/setup_pynq.sh
	@echo "setting up .venv-pynq (a minute the first time)"
	@tools/setup_pynq.sh
	@touch $@

demo: $(STAMP) ## SmolLM2 answers a prompt, its KV cache on two emulated cards
	@mkdir -p build/demo
	@.venv/bin/nearkv generate \
	  --card 'sw_emu:0?ssd=build/demo/card0' --card 'sw_emu:1?ssd=build/demo/card1' \
	  --prompt 'Explain in two sentences what a solid-state drive is.' --max-new-tokens 100

test: $(STAMP) ## the whole test suite
	@$(ONE_THREAD) $(PYTHON) -m pytest -n $(TEST_WORKERS) --dist loadgroup -m 'not soak'

test-pynq: $(PYNQ_STAMP) ## `pynq:` cards through PYNQ 3.0.1, in an environment of its own
	@$(ONE_THREAD) $(PYTHON) -m pytest -rs tests/xrt/test_pynq.py tests/xrt/test_pynq_transport.py

soak: $(STAMP) ## long random runs that the test suite leaves out
	@$(ONE_THREAD) $(PYTHON) -m pytest -m soak --timeout 3600

formal: $(STAMP) ## prove properties of the RTL, find planted faults; a table with the cost of each
	@PYTHONPATH=driver $(ONE_THREAD) $(PYTHON) -m fpga.formal --mutations

lint: $(STAMP) ## ruff, mypy, clang-format, Verilator, pyverilog, and generated files against their sources
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@$(PYTHON) -m nearkv_driver.regmap_gen --check
	@$(PYTHON) -m nearkv_driver.xclbin.kernel_file --check
	@$(PYTHON) -m nearkv_driver.bitstream.link_files --check
	@.venv/bin/clang-format --dry-run --Werror $(CXX_SOURCES)
	@$(PYTHON) -m tools.rtl.check
	@$(PYTHON) -m tools.rtl.diagram --check
	@$(PYTHON) -m pytest tests/rtl/test_sources.py -k 'lint or tables'

synth: $(STAMP) ## what the RTL takes of the KU15P (Yosys) and how deep its logic is; ten minutes the first time
	@$(ONE_THREAD) $(PYTHON) -m tools.rtl.synth

format: $(STAMP) ## rewrite sources in the house format
	@$(PYTHON) -m ruff check --fix --quiet . ; $(PYTHON) -m ruff format .
	@.venv/bin/clang-format -i $(CXX_SOURCES)

contract: $(STAMP) ## regenerate what comes from fpga/regmap.toml and the table of cards
	@$(PYTHON) -m nearkv_driver.regmap_gen
	@$(PYTHON) -m nearkv_driver.xclbin.kernel_file
	@$(PYTHON) -m nearkv_driver.bitstream.link_files

diagram: $(STAMP) ## redraw docs/rtl-modules.md from fpga/rtl
	@$(PYTHON) -m tools.rtl.diagram

bench: $(STAMP) ## measure speed and link bytes; tables and JSON in build/benchmarks/
	@mkdir -p build/benchmarks
	@$(ONE_THREAD) $(PYTHON) benchmarks/kernel_speed.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/rtl_simulation.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/link_bytes.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/streaming.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/host_memory.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/prefill_memory.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/gpu_host.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/plan_accuracy.py
	@$(PYTHON) benchmarks/volume_churn.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/session_cost.py --out build/benchmarks/session_cost.json
	@$(PYTHON) benchmarks/volume_read.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/scrub_rate.py
	@$(ONE_THREAD) $(PYTHON) benchmarks/spill_pause.py --drive smartssd

clean: ## remove the environment and everything built
	@rm -rf .venv .venv-pynq build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
