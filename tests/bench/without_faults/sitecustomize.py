"""Runs when an interpreter starts: makes the processes of one site such that know of no fault rules.

So the same mesh has two engines, one that looks for rules and one that does not, to be compared in one run.
"""

import os

SITE = os.environ.get("TOWPATH_BENCH_WITHOUT_FAULTS", "")

if SITE and os.environ.get("TOWPATH_PROCESS", "").startswith(f"{SITE}-"):
    os.environ.pop("TOWPATH_HOOKS", None)
