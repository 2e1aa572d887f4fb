"""Spec files: what is read from YAML, and that the examples are what they claim to be."""

import importlib.util
import inspect
import re
import runpy
from datetime import datetime
from pathlib import Path

import pytest

from towpath.cli.specs import load_specs
from towpath.contracts.operators import Predict, Python
from towpath.operators.kind import kinds, user_code

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))

JOB = """\
name: {name}
site: jfk
inputs: [{{site: jfk, topic: site/departures}}]
output: {{topic: departures/{name}}}
operator: {{kind: forward}}
"""
SHOWN_BY = {"word_count": "python", "flat_wheel": "predict", "predict_python": "predict"}
"""Examples that are named after what they compute → the operator they show."""


def test_spec_file_when_it_has_documents_and_lists_then_all_jobs_come_in_order(tmp_path: Path) -> None:
    indented = "".join(f"    {line}\n" for line in JOB.format(name="third").splitlines())
    listed = "jobs:\n  -\n" + indented
    path = tmp_path / "all.yaml"
    path.write_text(f"---\n{JOB.format(name='first')}---\n{JOB.format(name='second')}---\n{listed}")
    assert [job.name for job in load_specs(path)] == ["first", "second", "third"]


def test_spec_file_when_it_uses_anchors_then_they_are_not_taken_for_repeated_keys(tmp_path: Path) -> None:
    path = tmp_path / "merged.yaml"
    path.write_text(
        "jobs:\n"
        "  - &one {name: one, site: jfk, inputs: [{site: jfk, topic: site/x}], output: {topic: one},"
        " operator: {kind: forward}}\n"
        "  - {<<: *one, name: two, output: {topic: two}}\n"
    )
    assert [(job.name, job.site, job.output.topic) for job in load_specs(path)] == [
        ("one", "jfk", "one"),
        ("two", "jfk", "two"),
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_when_read_then_is_a_valid_spec_and_says_what_it_shows(path: Path) -> None:
    kinds = {job.operator.kind for job in load_specs(path)}
    assert SHOWN_BY.get(path.stem, path.stem) in kinds
    assert path.read_text().startswith("# ")


def test_examples_when_taken_together_then_show_the_operators_they_are_named_after() -> None:
    assert {"clean", "window", "filter", "python", "merge"} <= {path.stem for path in FILES}
    assert {path.stem for path in FILES} - SHOWN_BY.keys() <= kinds().keys()


def test_examples_when_they_read_another_job_then_one_of_them_writes_it() -> None:
    jobs = [job for path in FILES for job in load_specs(path)]
    written = {(job.output_site, job.output.topic) for job in jobs}
    read = {(i.site, i.topic) for job in jobs for i in job.inputs if not i.from_device}
    assert read
    assert read <= written


def test_example_of_a_model_when_its_artefact_is_looked_up_then_its_class_predicts() -> None:
    (job,) = load_specs(EXAMPLES / "predict_python.yaml")
    code = user_code(job.operator)
    assert isinstance(job.operator, Predict)
    assert code is not None
    assert code.artefact is not None
    module_name, class_name = code.entry.split(":")
    own = runpy.run_path(str(Path(code.artefact) / f"{module_name}.py"))[class_name]
    monday = datetime(2026, 3, 2)

    predicting = own(**job.operator.user_model.parameters)

    first, second = (predicting.predict({"departed_at": monday, "delay": delay}) for delay in (10.0, 80.0))
    assert (first["statistic"], second["statistic"], second["weekday"]) == (0.0, 70.0, "Monday")
    assert first.keys() == {"statistic", *job.operator.user_model.writes}


def test_python_example_when_its_artefact_is_looked_up_then_the_entry_takes_events_and_parameters() -> None:
    (job,) = load_specs(EXAMPLES / "python.yaml")
    assert isinstance(job.operator, Python)
    assert job.operator.artefact is not None
    assert Path(job.operator.artefact).is_absolute()
    module_name, function_name = job.operator.entry.split(":")
    specification = importlib.util.spec_from_file_location(
        module_name, Path(job.operator.artefact) / f"{module_name}.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert list(inspect.signature(getattr(module, function_name)).parameters) == ["departures", "parameters"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_when_it_names_a_job_to_migrate_then_the_job_is_in_it(path: Path) -> None:
    names = {job.name for job in load_specs(path)}
    mentioned = set(re.findall(r"towpath migrate ([a-z-]+)", path.read_text()))
    assert mentioned <= names
