# SPDX-License-Identifier: Apache-2.0
"""Who may import whom, and that importing does no work."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "nearkv": ROOT / "host/nearkv",
    "nearkv_driver": ROOT / "driver/nearkv_driver",
    "nearkv_emulation": ROOT / "emulation/nearkv_emulation",
}
MAY_IMPORT = {
    "nearkv": {"nearkv", "nearkv_driver"},
    "nearkv_driver": {"nearkv_driver"},
    "nearkv_emulation": {"nearkv_emulation", "nearkv_driver"},
}
# Heavy frameworks, and the only folders of `nearkv` that may know them.
FRAMEWORKS = {"torch", "transformers", "safetensors", "tokenizers"}
FRAMEWORK_FOLDERS = ("adapters", "models")


def modules() -> list[tuple[str, Path]]:
    return [(package, path) for package, folder in PACKAGES.items() for path in sorted(folder.rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """Top-level names of everything a file imports, anywhere in it, for types or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add((node.module or "").partition(".")[0])
    return found


def test_every_package_has_modules() -> None:
    assert {package for package, _ in modules()} == set(PACKAGES)


@pytest.mark.parametrize(("package", "path"), modules(), ids=lambda x: x.name if isinstance(x, Path) else x)
def test_imports_go_to_the_driver_only(package: str, path: Path) -> None:
    assert imported(path) & set(PACKAGES) <= MAY_IMPORT[package]


@pytest.mark.parametrize(("package", "path"), modules(), ids=lambda x: x.name if isinstance(x, Path) else x)
def test_frameworks_stay_in_their_folders(package: str, path: Path) -> None:
    inside = package == "nearkv" and path.relative_to(PACKAGES["nearkv"]).parts[0] in FRAMEWORK_FOLDERS
    assert inside or not imported(path) & FRAMEWORKS


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_does_no_work(package: str) -> None:
    code = f"import sys, {package}; print(sorted({FRAMEWORKS} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_pyxrt_is_known_to_one_module() -> None:
    """Everything that is particular to it stands in one place."""
    users = [path.name for _, path in modules() if "pyxrt" in imported(path) or 'load("pyxrt")' in path.read_text()]
    assert users == ["pyxrt_api.py"]


def test_importing_the_driver_opens_no_transport() -> None:
    code = "import sys, nearkv_driver.device; print([m for m in sys.modules if m.startswith('nearkv_emulation')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_tests_are_those_of_the_repository() -> None:
    """Wheels (pyverilog's is one) may leave a top-level `tests` in site-packages; ours must win."""
    import tests

    assert Path(str(tests.__file__)).resolve() == ROOT / "tests" / "__init__.py"
    code = "import tests; print(tests.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).resolve() == ROOT / "tests" / "__init__.py"
