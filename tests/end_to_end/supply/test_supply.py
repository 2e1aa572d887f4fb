"""The wheel says what Towpath is made of, and none of it has a known vulnerability."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "requirements.lock"
SBOM = r"towpath-[^/]+\.dist-info/sboms/towpath\.cdx\.json"
ANSWER_S = 30


def audited(lock: Path) -> dict[str, list[str]]:
    """Return the vulnerabilities of each package that the database knows. Skip the test if it is away."""
    options = ["--requirement", str(lock), "--require-hashes", "--disable-pip", "--format", "json"]
    command = [sys.executable, "-m", "pip_audit", *options, "--progress-spinner", "off"]
    run = subprocess.run([*command, "--timeout", str(ANSWER_S)], capture_output=True, text=True)
    if "dependencies" not in run.stdout:
        pytest.skip(
            f"not audited, the database of vulnerabilities is out of reach: {run.stderr.strip()[-200:]}"
        )
    found = json.loads(run.stdout)["dependencies"]
    return {each["name"]: [one["id"] for one in each["vulns"]] for each in found if "vulns" in each}


def test_locked_packages_when_they_are_audited_then_none_has_a_known_vulnerability(tmp_path: Path) -> None:
    first = tmp_path / "first.lock"
    first.write_text(re.split(r"\n(?=\w)", LOCK.read_text())[1])
    if not audited(first):
        pytest.skip("not audited: the index of packages here does not know of vulnerabilities")

    vulnerable = {name: found for name, found in audited(LOCK).items() if found}

    assert vulnerable == {}


def test_wheel_when_it_is_built_then_its_bill_of_materials_names_what_the_lock_names(tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])

    with zipfile.ZipFile(wheel) as archive:
        [path] = [name for name in archive.namelist() if re.fullmatch(SBOM, name)]
        bill = json.loads(archive.read(path))
    named = {(each["name"], each["version"]) for each in bill["components"]}
    lock = re.findall(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", LOCK.read_text(), re.M)
    assert named == {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in lock}
