# SPDX-License-Identifier: Apache-2.0
"""Each format of volumes has a step that leads to it, and opening upgrades from all that were."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nearkv.volume_identity import FORMAT, OLDER_FORMATS
from nearkv.volume_schema import _UPGRADES, check_version, prepare, upgrade


def test_each_format_has_a_step_that_leads_to_it(tmp_path: Path) -> None:
    """An index of each older format becomes this one; without its step it would be called so and lack the columns."""
    assert (len(_UPGRADES), OLDER_FORMATS) == (FORMAT, tuple(range(1, FORMAT)))
    for number in OLDER_FORMATS:
        with closing(sqlite3.connect(tmp_path / f"{number}", isolation_level=None)) as db:
            prepare(db)
            db.executescript("".join(_UPGRADES[:number]) + f"PRAGMA user_version = {number}")
            assert upgrade(db, tmp_path / f"{number}", lambda: None) == number
            check_version(db, tmp_path)
            db.execute("SELECT tail_ids, seal, ids, tag FROM sequences, spills, extent_groups")
