# SPDX-License-Identifier: Apache-2.0
"""The planner: a discrete-event model of a system that keeps its KV cache somewhere, and what follows from it.

`plan.make_plan` gives a plan; `hardware/*.toml` and `models.toml` hold the figures; `validation` compares with what
others published. Importing it imports neither simpy nor matplotlib: they are needed when a step is simulated or drawn.
"""
