"""The lock has all that pyproject.toml asks for, each with hashes, and the bill of materials is its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PACKAGES = [part for part in re.split(r"\n(?=[^\s#])", "\n" + LOCK) if "==" in part]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", name)[0]).lower()


def test_lock_when_pyproject_names_a_package_then_it_has_its_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]

    wanted = {normal(name) for names in lists for name in names} - {"towpath"}

    assert wanted - {normal(part.strip()) for part in PACKAGES} == set(), "run `make lock`"


def test_lock_when_a_package_is_in_it_then_it_has_hashes_and_says_nothing_of_where_it_came_from() -> None:
    assert [part for part in PACKAGES if "--hash=sha256:" not in part] == []
    assert not re.search(r"://|--index-url|--find-links", LOCK)


def test_bill_of_materials_when_the_lock_has_changed_then_it_has_too() -> None:
    command = [sys.executable, str(ROOT / "infra/supply/bill_of_materials.py"), "--check"]

    assert subprocess.run(command, capture_output=True, text=True).stderr == ""
