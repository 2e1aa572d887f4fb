"""Name the policies. A new one is a file here, or anywhere, and an entry in `POLICIES`."""

from __future__ import annotations

from difflib import get_close_matches

from towpath.placement.jobs.policies.baseline import Baseline
from towpath.placement.jobs.policies.energy import Energy
from towpath.placement.jobs.policies.performance import Performance
from towpath.placement.jobs.policies.quality import Quality
from towpath.placement.jobs.policy import Policy

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy for policy in (Baseline, Performance, Quality, Energy)
}


def policy(name: str, **parameters: float) -> Policy:
    """Return a policy by name. Raise `ValueError` if there is none, or a parameter is not its own."""
    if name not in POLICIES:
        alike = get_close_matches(name, POLICIES, 1)
        hint = f"did you mean {alike[0]!r}?" if alike else f"known: {', '.join(POLICIES)}"
        raise ValueError(f"policy {name!r} is unknown; {hint}")
    try:
        return POLICIES[name](**parameters)
    except TypeError as error:
        raise ValueError(f"policy {name!r}: {error}") from error
