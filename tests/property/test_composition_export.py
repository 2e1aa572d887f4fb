"""The YAML of any pipeline reads back as the same pipeline."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from running.example_counts import share_of_examples
from towpath.composition.documents import read_document
from towpath.composition.export import plain, to_yaml
from towpath.contracts.pipeline import PipelineSpec

SITES = st.sampled_from(["edge", "cloud"])
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
TOPICS = st.from_regex(r"[A-Za-z0-9_-]{1,6}(/[A-Za-z0-9_-]{1,6}){0,2}", fullmatch=True)
FIELDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("serial", "input", "stored_at", "topic")
)
TYPES = st.sampled_from(["string", "long", "double", "boolean", "timestamp"])
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OPERATORS = st.one_of(
    st.sampled_from([{"kind": "forward"}, {"kind": "merge"}]),
    st.fixed_dictionaries(
        {
            "kind": st.just("clean"),
            "fields": st.dictionaries(
                FIELDS,
                st.fixed_dictionaries(
                    {"type": st.just("double"), "required": st.booleans()},
                    optional={"minimum": st.floats(-1e9, 0), "maximum": st.floats(1e-9, 1e300)},
                ),
                min_size=1,
                max_size=3,
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("python"),
            "entry": st.just("package.module:function"),
            "fields": st.dictionaries(FIELDS, TYPES, max_size=3),
            "parameters": st.dictionaries(TEXTS, DATA, max_size=3),
        },
        optional={"artefact": TEXTS},
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("window"),
            "size_s": st.floats(1e-3, 1e6),
            "aggregates": st.just({"mean": {"function": "avg", "field": "delay"}}),
            "fields": st.just({"delay": "double"}),
        }
    ),
)


@st.composite
def jobs(draw: st.DrawFn, name: str) -> dict[str, Any]:
    topics = draw(st.lists(TOPICS, min_size=1, max_size=3, unique=True))
    start = st.sampled_from(["earliest", "latest"]) | st.integers(0, 2**60)
    optional = {
        "strategy": st.sampled_from(["auto", "general"]),
        "resources": st.fixed_dictionaries({"cores": st.floats(0, 64), "memory_mb": st.integers(0, 9999)}),
        "placement": st.fixed_dictionaries(
            {"allowed": st.none() | st.lists(SITES, max_size=2), "beside": st.lists(NAMES, max_size=2)}
        ),
        "trigger_s": st.floats(0, 3600),
        "max_events_per_batch": st.none() | st.integers(1, 10**6),
    }
    return {
        "name": name,
        "site": draw(SITES),
        "inputs": [{"site": draw(SITES), "topic": topic, "start": draw(start)} for topic in topics],
        "output": {"site": draw(st.none() | SITES), "topic": f"out/{name}"},
        "operator": draw(OPERATORS),
        **draw(st.fixed_dictionaries({}, optional=optional)),
    }


@st.composite
def pipelines(draw: st.DrawFn) -> PipelineSpec:
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    return PipelineSpec.model_validate({"name": draw(NAMES), "jobs": [draw(jobs(name)) for name in names]})


@given(spec=pipelines())
def test_pipeline_when_exported_then_reads_back_as_it_was(spec: PipelineSpec) -> None:
    assert read_document(to_yaml(spec), name=None, sites=()).spec == spec


@given(spec=pipelines())
@share_of_examples(0.5)
def test_pipeline_when_exported_then_what_would_be_so_anyway_is_left_out(spec: PipelineSpec) -> None:
    for job, body in zip(spec.jobs, plain(spec)["jobs"], strict=True):
        assert body["operator"]["kind"] == job.operator.kind
        for field in ("strategy", "resources", "placement", "trigger_s", "max_events_per_batch"):
            default = type(job).model_fields[field].default
            assert (field in body) == (getattr(job, field) != default)


@given(text=st.text(st.sampled_from("a \n\r\t\x85\u2028\u2029\ufeff'\"\\:#-\x00é\xa0"), max_size=12))
def test_text_when_it_has_line_breaks_of_any_kind_then_reads_back_as_it_was(text: str) -> None:
    operator = {"kind": "python", "entry": "m:f", "parameters": {"text": text, text: 1}}
    job = {
        "name": "a",
        "site": "edge",
        "inputs": [{"site": "edge", "topic": "site/a"}],
        "output": {"topic": "out"},
        "operator": operator,
    }
    spec = PipelineSpec.model_validate({"name": "texts", "jobs": [job]})
    assert read_document(to_yaml(spec), name=None, sites=()).spec == spec
