"""The version of Towpath on this machine."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the version that is installed now; `unknown` where Towpath runs without being installed.

    A process that is older than an upgrade runs an earlier one.
    """
    try:
        return version("towpath")
    except PackageNotFoundError:
        return "unknown"
