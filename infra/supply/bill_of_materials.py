"""Write what Towpath is made of, as CycloneDX, from requirements.lock.

The wheel has the file as `.dist-info/sboms/towpath.cdx.json` (PEP 770). One lock always makes one file.

python infra/supply/bill_of_materials.py            writes it
python infra/supply/bill_of_materials.py --check    fails if it is not what the lock says
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
BILL = Path(__file__).parent / "towpath.cdx.json"

_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[.*\])?==(?P<version>[^ ]+)")
_NEEDED_BY = re.compile(r"    #(?: via)?\s+(?P<name>[A-Za-z0-9._-]+)")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Locked:
    """A package of the lock, and the packages that need it."""

    name: str
    version: str
    needed_by: frozenset[str]

    @property
    def reference(self) -> str:
        """The package's name for programs (purl)."""
        return f"pkg:pypi/{self.name}@{self.version}"


def locked(text: str) -> list[Locked]:
    """Return the packages of a lock."""
    found: list[tuple[str, str, set[str]]] = []
    for line in text.splitlines():
        if package := _PACKAGE.match(line):
            found.append((normal(package["name"]), package["version"], set()))
        elif (needing := _NEEDED_BY.match(line)) and found:
            found[-1][2].add(normal(needing["name"]))
    return [Locked(name, version, frozenset(needing)) for name, version, needing in found]


def normal(name: str) -> str:
    """Return a package's name in the form that all spellings of it share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def bill(packages: Iterable[Locked], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bill of materials of a project's table in pyproject.toml."""
    packages = sorted(packages, key=lambda each: (each.name, each.version))
    extras = project["optional-dependencies"]
    required = _closure(packages, project["dependencies"])
    optional = _closure(packages, [one for name in extras if name != "dev" for one in extras[name]])
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    made: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
                "bom-ref": own,
                "purl": own,
            }
        },
        "components": [_component(each, required, optional) for each in packages],
        "dependencies": [
            {"ref": reference, "dependsOn": [one.reference for one in packages if name in one.needed_by]}
            for reference, name in [(own, project["name"]), *((one.reference, one.name) for one in packages)]
        ],
    }
    made["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made))}"
    return made


def _component(package: Locked, required: set[str], optional: set[str]) -> dict[str, Any]:
    """Return a package's entry. Those for development only are `excluded`: Towpath runs without them."""
    scope = "required" if package.name in required else "optional" if package.name in optional else "excluded"
    return {
        "type": "library",
        "name": package.name,
        "version": package.version,
        "scope": scope,
        "bom-ref": package.reference,
        "purl": package.reference,
    }


def _closure(packages: Iterable[Locked], requirements: Iterable[str]) -> set[str]:
    """Return the names of requirements, and of all that they need."""
    matches = [_NAME.match(one) for one in requirements]
    reached = {normal(match[0]) for match in matches if match} - {"towpath"}
    while more := {each.name for each in packages if each.needed_by & reached} - reached:
        reached |= more
    return reached


def text() -> str:
    """Return the file that the lock and pyproject.toml make."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return json.dumps(bill(locked(LOCK.read_text()), project), indent=1) + "\n"


def main() -> int:
    """Write the file, or compare it. Return 1 if it is not what the lock says."""
    if "--check" not in sys.argv[1:]:
        BILL.write_text(text())
        return 0
    if BILL.exists() and BILL.read_text() == text():
        return 0
    print(f"{BILL.relative_to(ROOT)} is not what requirements.lock says: run `make lock`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
