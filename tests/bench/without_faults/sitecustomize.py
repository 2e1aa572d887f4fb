"""Switch fault rules off in the processes of one site. It runs when an interpreter starts.

So the same mesh has two engines, one with rules and one without, which a single run can compare.
"""

import os

SITE = os.environ.get("TOWPATH_BENCH_WITHOUT_FAULTS", "")

if SITE and os.environ.get("TOWPATH_PROCESS", "").startswith(f"{SITE}-"):
    os.environ.pop("TOWPATH_HOOKS", None)
