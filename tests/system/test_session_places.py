# SPDX-License-Identifier: Apache-2.0
"""Stored sessions on file systems that are full or may only be read: what works there, and what is told."""

from __future__ import annotations

from pathlib import Path

from nearkv.cli import main

from tests.support.namespaces import run_with_mounts
from tests.support.stored_sessions import arguments, make_sessions

_COMMON = """
import contextlib, io, json, sys
from pathlib import Path
from nearkv.cli import main
from nearkv.kvstore import KVStore
from nearkv.volume_folders import UserError
from nearkv_driver.errors import StorageError
from tests.support.stored_sessions import OpenSession, arguments, folders, make_sessions
from tests.support.stores import layout, urls

folder = Path(sys.argv[1])

def run(*words, options=()):
    command, *rest = words
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["sessions", command, *arguments(cards), *options, "--", *rest])
    return code, out.getvalue(), err.getvalue()

def listed():
    code, out, err = run("list", options=["--json"])
    assert code == 0, err
    return [(s["name"], s["tokens"], s["stored_tokens"]) for s in json.loads(out)]
"""

FULL = (
    _COMMON
    + """
cards = make_sessions(folder, [150, 300], options="&io=buffered")
file = str(folder.parent / "file")
assert run("export", "s0", file)[0] == 0
full = None
with KVStore.open(layout(), cards) as store, OpenSession(store, folder, "big") as session:
    for _ in range(40):
        try:
            session.steps.say(range(900), max_new_tokens=1)
        except StorageError as error:
            full = error
            break
assert full is not None and "data-000000.pages: disk full" in str(full) and "kept for the index" in str(full), full
names = [name for name, _, _ in listed()]
assert names == ["big", "s0", "s1"]
free = {}
for words, options in ((("fork", "big", "copy"), ()), (("import", file), ("--name", "new"))):
    code, _, err = run(*words, options=options)
    assert code in (0, 3) and (code == 0 or "disk full" in err), err
for name in ("copy", "new"):
    run("rm", name)
assert run("verify")[0] == 0
# There is room for the index still, so removing works, and what is given back can be used.
assert run("rm", "big") == (0, "", "")
assert listed() == [("s0", 150, 149), ("s1", 300, 299)]
with KVStore.open(layout(), cards) as store, OpenSession(store, folder, "again") as session:
    session.steps.say(range(900), max_new_tokens=1)
# Somebody else takes every byte.
with open(folder / "ballast", "wb", buffering=0) as ballast:
    with contextlib.suppress(OSError):
        while ballast.write(bytes(4096)):
            pass
assert [name for name, _, _ in listed()] == ["again", "s0", "s1"]
assert run("verify")[0] == 0
code, _, err = run("export", "s0", str(folder / "out"))
assert code == 2 and "cannot be written" in err and not (folder / "out").exists(), err
for words in (("fork", "s1", "b"), ("import", file)):
    code, _, err = run(*words, options=("--name", "b") if words[0] == "import" else ())
    assert code == 3 and "disk full" in err, err
assert [name for name, _, _ in listed()] == ["again", "s0", "s1"]
code, _, err = run("rm", "again")
assert code == 3 and "disk full" in err and "0 free" in err, err
assert [name for name, _, _ in listed()] == ["again", "s0", "s1"]
(folder / "ballast").unlink()
assert run("rm", "again")[0] == 0
assert run("fork", "s0", "c")[0] == 0
with KVStore.open(layout(), cards) as store:
    assert len(store.names()) == 3
assert run("verify")[0] == 0
print("done")
"""
)

READ_ONLY = (
    _COMMON
    + """
cards = urls(2, folder, kernel="model")
assert listed() == [("s0", 150, 149), ("s1", 300, 299)]
code, out, err = run("verify")
assert code == 0 and out.count(": good") == 2, err
assert run("show", "s0")[0] == 0
file = folder.parent / "file"
assert run("export", "s1", str(file))[0] == 0 and file.stat().st_size > 300 * 2 * 2 * 2 * 128
for words in (("rm", "s0"), ("fork", "s0", "x"), ("import", str(file)), ):
    code, _, err = run(*words, options=("--name", "x") if words[0] == "import" else ())
    assert code == 3 and "lock: cannot be opened: Read-only file system" in err, (words, err)
assert run("verify", options=("--repair", "drop"))[0] == 0
print("done")
"""
)


def test_a_full_file_system_keeps_every_session_and_gives_room_back(tmp_path: Path) -> None:
    place = tmp_path / "full"
    place.mkdir()
    assert run_with_mounts(place, 'mount -t tmpfs -o size=6m tmpfs "$0"', FULL).endswith("done\n")


def test_volumes_that_may_only_be_read_are_listed_verified_and_exported(tmp_path: Path) -> None:
    """After an end in order, when SQLite's log is gone, and with one beside the index."""
    place = tmp_path / "volumes"
    place.mkdir()
    cards = make_sessions(place, [150, 300])
    read_only = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    assert not list(place.glob("*/index.sqlite-*"))
    assert run_with_mounts(place, read_only, READ_ONLY).endswith("done\n")
    (tmp_path / "file").unlink()
    assert main(["sessions", "list", *arguments(cards)]) == 0
    assert list(place.glob("*/index.sqlite-*"))  # who only reads leaves them
    assert run_with_mounts(place, read_only, READ_ONLY).endswith("done\n")
