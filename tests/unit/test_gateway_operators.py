"""Operators of gateways, alone and in a chain whose properties change while it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from towpath.gateways.manifest import is_inside, read_manifest, with_properties
from towpath.gateways.operators.aggregate import Aggregate, AggregateParameters
from towpath.gateways.operators.chain import Chain
from towpath.gateways.operators.operator import MOST_KEYS, operators
from towpath.gateways.refusal import Refusal

AVERAGE = {"operator": "average", "field": "celsius", "seconds": "$publish.rate", "by": "sensor"}


def fed(chain: Chain, *events: dict[str, Any], at: float = 0.0) -> list[dict[str, Any]]:
    return [result for n, event in enumerate(events) for result in chain.take(event, at + n)]


def values(chain: Chain, *readings: float) -> list[float]:
    return [result["celsius"] for result in fed(chain, *({"celsius": each} for each in readings))]


def test_operators_when_listed_then_are_those_of_the_gateway() -> None:
    assert sorted(operators()) == ["aggregate", "average", "filter", "map", "python", "sample", "threshold"]


@pytest.mark.parametrize(
    ("described", "passes"),
    [
        ({"operator": "filter", "field": "celsius", "comparison": ">", "value": 2}, [5, 3, 9]),
        ({"operator": "filter", "field": "celsius", "comparison": "in", "value": [1, 9]}, [1, 9]),
        ({"operator": "threshold", "field": "celsius", "change": 2}, [1, 5, 9]),
        ({"operator": "sample", "every": 2}, [1, 3]),
        ({"operator": "sample", "period_s": 3}, [1, 9]),
        ({"operator": "map", "scale": {"celsius": [2, 1]}}, [3, 11, 7, 19]),
    ],
)
def test_operator_when_it_gets_readings_then_passes_these(
    described: dict[str, Any], passes: list[float]
) -> None:
    assert values(Chain([described], {}), 1, 5, 3, 9) == passes


def test_map_when_it_renames_then_keeps_what_it_is_told() -> None:
    chain = Chain(
        [{"operator": "map", "rename": {"t": "celsius"}, "keep": ["celsius"], "constants": {"v": 1}}], {}
    )
    assert fed(chain, {"t": 4, "x": 1}) == [{"celsius": 4, "v": 1}]


def test_average_when_its_window_ends_then_gives_a_result_for_each_sensor() -> None:
    chain = Chain([AVERAGE | {"functions": ["mean", "max"]}], {"publish.rate": 5})
    assert (
        fed(
            chain, {"sensor": "a", "celsius": 1}, {"sensor": "b", "celsius": 7}, {"sensor": "a", "celsius": 3}
        )
        == []
    )
    assert (chain.tick(4.9), chain.next_due()) == ([], 5.0)
    a, b = chain.tick(5.0)
    assert a == {
        "sensor": "a",
        "celsius_mean": 2.0,
        "celsius_max": 3,
        "count": 2,
        "window_start": 0.0,
        "window_end": 5.0,
    }
    assert (b["sensor"], b["celsius_mean"], chain.next_due()) == ("b", 7.0, None)


def test_average_when_sensors_are_numbers_then_results_have_numbers() -> None:
    chain = Chain([AVERAGE], {"publish.rate": 5})
    fed(chain, {"sensor": 7, "celsius": 1}, {"celsius": 3})
    again = Chain([AVERAGE], {"publish.rate": 5})
    again.restore(chain.state())
    assert [(each["sensor"], each["celsius_mean"]) for each in again.tick(5.0)] == [(7, 1.0)]
    assert (chain.rejected, chain.last_rejection) == (1, "field 'sensor' is missing")


def test_average_when_an_earlier_version_had_a_window_open_then_it_goes_on() -> None:
    average = Aggregate(AggregateParameters(field="celsius", seconds=5, by="sensor"))
    average.restore([0.0, {"d1": [3, 6.0, 1.0, 3.0]}])
    average.take({"sensor": "d1", "celsius": 2.0}, 1.0)
    assert [(each["sensor"], each["count"]) for each in average.tick(5.0)] == [("d1", 4)]


def test_average_when_its_rate_changes_then_the_open_window_goes_on_with_the_new_one() -> None:
    chain = Chain([AVERAGE], {"publish.rate": 5})
    fed(chain, {"sensor": "a", "celsius": 1})
    chain.configure({"publish.rate": 10})
    assert chain.tick(5.0) == []
    assert [each["count"] for each in chain.tick(10.0)] == [1]


def test_average_when_the_clock_is_set_back_then_its_window_ends_all_the_same() -> None:
    chain = Chain([AVERAGE], {"publish.rate": 5})
    fed(chain, {"sensor": "a", "celsius": 1}, at=1000.0)
    fed(chain, {"sensor": "a", "celsius": 1}, at=10.0)
    assert [each["count"] for each in chain.tick(15.0)] == [2]


def test_chain_when_restored_then_goes_on_where_it_stood() -> None:
    described = [
        AVERAGE,
        {"operator": "threshold", "field": "celsius_mean", "change": 1},
        {"operator": "sample"},
    ]
    chain = Chain(described, {"publish.rate": 5})
    fed(chain, {"sensor": "a", "celsius": 1})
    again = Chain(described, {"publish.rate": 5})
    again.restore(chain.state())
    assert again.tick(5.0) == chain.tick(5.0) != []


def test_chain_when_an_event_is_unfit_then_counts_it_and_goes_on() -> None:
    chain = Chain([AVERAGE], {"publish.rate": 5})
    fed(chain, {"sensor": "a"}, {"sensor": "a", "celsius": "hot"}, {"sensor": "a", "celsius": True})
    assert (chain.rejected, chain.last_rejection) == (3, "field 'celsius' is True, not a number")


def test_threshold_when_there_are_too_many_sensors_then_rejects_the_others() -> None:
    chain = Chain([{"operator": "threshold", "field": "celsius", "change": 0, "by": "sensor"}], {})
    fed(chain, *({"sensor": n, "celsius": 1} for n in range(MOST_KEYS + 2)))
    assert chain.rejected == 2


def test_python_when_its_function_raises_then_the_event_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def halved(event, parameters):\n    return {'half': event['x'] / parameters['by']}\n"
    (tmp_path / "gateway_readings.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    chain = Chain(
        [{"operator": "python", "function": "gateway_readings:halved", "parameters": {"by": "$by"}}],
        {"by": 2},
    )
    chain.prepare()
    assert fed(chain, {"x": 4}, {}) == [{"half": 2.0}]
    assert chain.last_rejection == "gateway_readings:halved raised KeyError: 'x'"
    del sys.modules["gateway_readings"]


def test_chain_when_descriptions_are_wrong_then_names_all_errors() -> None:
    wrong = [
        {"operator": "averag"},
        AVERAGE | {"seconds": 0},
        AVERAGE | {"seconds": "$rate"},
        {"operator": "map", "x": 1},
    ]
    with pytest.raises(Refusal) as refused:
        Chain(wrong, {})
    fields = [problem.field for problem in refused.value.problems]
    assert fields == ["operators.0.operator", "operators.1.seconds", "operators.2", "operators.3"]


MANIFEST = (
    b'{"name": "a", "version": "1", "input": {"topics": ["t/#"]}, "output": "site/t",'
    b'"operators": [{"operator": "sample", "period_s": "$rate"}], "properties": {"rate": 5, "unit": "C"}}'
)


def test_properties_when_they_are_texts_as_in_plans_then_are_read_by_their_type() -> None:
    manifest = read_manifest(MANIFEST)
    assert with_properties(manifest, {"gone": 1}, {"rate": "10"}) == {"rate": 10, "unit": "C"}


def test_properties_when_they_are_wrong_then_all_are_named() -> None:
    with pytest.raises(Refusal) as refused:
        with_properties(read_manifest(MANIFEST), {}, {"rate": "often", "speed": 1, "unit": 3})
    assert [problem.field for problem in refused.value.problems] == ["rate", "speed", "unit"]


def test_properties_when_an_operator_cannot_use_one_then_none_is_changed() -> None:
    with pytest.raises(Refusal) as refused:
        with_properties(read_manifest(MANIFEST), {}, {"rate": -1})
    assert refused.value.problems[0].field == "operators.0.period_s"


def test_manifest_when_much_is_wrong_then_names_all() -> None:
    content = MANIFEST.replace(b"site/t", b"jobs/t").replace(b'["t/#"]', b"[]").replace(b"$rate", b"$rat")
    with pytest.raises(Refusal) as refused:
        read_manifest(content)
    assert [problem.field for problem in refused.value.problems] == ["output", "input.topics", "operators.0"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "a\\..\\x", ""])
def test_name_when_it_leads_out_of_the_package_then_is_not_inside(name: str) -> None:
    assert not is_inside(name)
