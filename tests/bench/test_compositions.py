"""The figures of the composition benchmark are right, and it runs: `pytest tests/bench`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from compositions_chains import CHEAPER, DEPLOY_EACH, GAP, R_SQUARED, case_of, fits
from compositions_course import Seen, chain
from compositions_fit import line_through
from compositions_gaps import Gaps, gaps
from compositions_usage import SERVICES, Usage, kind_of, total

QUIET, CHANGING = (0.0, 10.0), (10.0, 20.0)


def every(seconds: float, begin: float = 0.0, end: float = 30.0) -> np.ndarray:
    return np.arange(begin, end, seconds)


def seen(deploy_s: float, modify_s: dict[int, float], found: list[Gaps] | None = None) -> Seen:
    jobs = max(modify_s)
    cpu_s = {"deploy": 1.0, f"modify {jobs}": 1.0}
    return Seen(deploy_s=deploy_s, modify_s=modify_s, delete_s=1.0, gaps=found or [], cpu_s=cpu_s)


def test_line_when_points_lie_on_one_then_slope_and_constant_are_its_own_and_it_explains_all():
    line = line_through([(1, 3.5), (10, 8.0), (100, 53.0)])
    assert line is not None
    assert (line.slope, line.constant) == (pytest.approx(0.5), pytest.approx(3.0))
    assert line.r_squared == pytest.approx(1.0)


def test_line_when_time_grows_with_the_square_then_it_does_not_explain_all():
    line = line_through([(n, float(n * n)) for n in (1, 10, 25, 50, 100)])
    assert line is not None
    assert line.r_squared < 0.96


def test_line_when_there_are_two_sizes_only_then_there_is_none():
    assert line_through([(1, 1.0), (10, 9.0), (10, 11.0)]) is None


def test_gap_when_an_untouched_job_goes_on_as_before_then_it_is_zero():
    found = gaps({"a": every(1.0)}, QUIET, CHANGING, 0.5)
    assert found is not None
    assert (found.jobs, found.usual_s, found.longest_s, found.beyond_usual_s) == (1, 1.0, 1.0, 0.0)


def test_gap_when_one_of_two_jobs_pauses_in_the_change_then_it_is_what_goes_beyond_its_own_longest_interval():
    pausing = np.concatenate([every(1.0, 0, 13), every(1.0, 16, 30)])
    found = gaps({"slow": every(4.0), "pausing": pausing}, QUIET, CHANGING, 0.5)
    assert found is not None
    assert found.beyond_usual_s == 3.0


def test_gap_when_results_do_not_come_back_within_the_change_then_the_interval_that_began_in_it_counts():
    stopped = np.concatenate([every(1.0, 0, 15), [40.0]])
    found = gaps({"a": stopped}, QUIET, CHANGING, 0.5)
    assert found is not None
    assert found.longest_s == 26.0


def test_gap_when_an_interval_is_longer_by_less_than_a_trigger_may_shift_it_then_it_is_none():
    shifted = np.concatenate([every(1.0, 0, 12), every(1.0, 12.3, 30)])
    found = gaps({"a": shifted}, QUIET, CHANGING, 0.5)
    assert found is not None
    assert found.longest_s > 1.2
    assert found.beyond_usual_s == 0.0


def test_gap_when_no_job_had_enough_results_before_then_nothing_is_claimed():
    assert gaps({"a": np.array([1.0, 12.0])}, QUIET, CHANGING, 0.5) is None


def test_gap_when_a_job_s_input_paused_then_it_is_not_the_job_s_own():
    pausing = np.concatenate([every(1.0, 0, 13), every(1.0, 16, 30)])
    behind = pausing + 0.3
    found = gaps({"first": pausing, "second": behind}, QUIET, CHANGING, 0.5, {"second": pausing})
    assert found is not None
    assert (found.beyond_usual_s, found.own_s) == (3.0, 3.0), "the first one's own"
    found = gaps({"second": behind}, QUIET, CHANGING, 0.5, {"second": pausing})
    assert found is not None
    assert (found.beyond_usual_s, found.own_s) == (pytest.approx(3.0), 0.0)


def test_chain_when_made_then_each_job_reads_the_one_before_and_a_revision_changes_its_job_only():
    spec = chain("c", 4, ["jfk", "cloud"], 7, {})
    assert [job.site for job in spec.jobs] == ["jfk", "jfk", "cloud", "cloud"]
    assert spec.jobs[0].inputs[0].start == 7
    for before, job in zip(spec.jobs, spec.jobs[1:], strict=False):
        assert (job.inputs[0].site, job.inputs[0].topic) == (before.site, before.output.topic)
    changed = chain("c", 4, ["jfk", "cloud"], 7, {2: 1})
    assert [a == b for a, b in zip(spec.jobs, changed.jobs, strict=True)] == [True, True, False, True]


def test_case_when_modifying_costs_more_than_deploying_then_its_target_is_not_met():
    met = {title: met for _, title, _, _, met in _measured(case_of(10, seen(5.0, {1: 0.5, 10: 6.0})))}
    assert met[DEPLOY_EACH]
    assert not met[CHEAPER]


def test_case_when_an_untouched_job_paused_then_its_target_is_not_met():
    paused = Gaps(jobs=3, usual_s=1.0, longest_before_s=1.1, longest_s=2.9, beyond_usual_s=1.8, own_s=1.8)
    met = {title: met for _, title, _, _, met in _measured(case_of(10, seen(5.0, {10: 3.0}, [paused])))}
    assert not met[GAP]


def test_fits_when_one_chain_took_far_too_long_then_deploying_is_not_linear():
    times = {1: 0.5, 10: 5.0, 25: 40.0, 50: 25.0}
    cases = fits({n: seen(s, {n: s / 2}) for n, s in times.items()})
    deploy = next(case for case in cases if case.name == "line: deploy")
    assert not deploy.targets[R_SQUARED].met(deploy.figures[R_SQUARED])


def test_process_when_it_is_of_a_site_then_its_kind_is_the_end_of_its_name():
    assert [kind_of(name) for name in ("jfk-engine", "jfk-agent", "a-b-nats", "hub", "coordinator")] == [
        "engine",
        "agent",
        "nats",
        SERVICES,
        SERVICES,
    ]


def test_usage_when_summed_then_kinds_add_up():
    summed = total({"engine": Usage(2, 100.0, 80.0, 1.5), "agent": Usage(1, 50.0, 40.0, 0.5)})
    assert summed == Usage(3, 150.0, 120.0, 2.0)


@pytest.mark.timeout(900)
def test_benchmark_when_run_quickly_then_all_chains_and_the_registry_are_measured_and_nothing_is_lost(
    tmp_path: Path,
):
    command = [sys.executable, str(Path(__file__).with_name("compositions.py")), "--quick"]
    done = subprocess.run([*command, "--output", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads((tmp_path / "compositions-latest.json").read_text())
    cases = {b["benchmark"]: {c["case"]: c for c in b["cases"]} for b in written["benchmarks"]}
    assert {"1 jobs", "5 jobs", "10 jobs", "line: deploy"} <= cases["chains"].keys()
    assert all(case["figures"]["events through all jobs"] for case in list(cases["chains"].values())[:3])
    assert cases["registry"]["100 jobs"]["figures"]["on disk, KB"] > 0


def _measured(case):
    from figures import Measured

    return Measured("chains", "", cases=[case]).verdicts()
