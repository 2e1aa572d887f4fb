"""The wire format of the data plane stays compatible with running meshes, stored streams and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from towpath.contracts import data_plane
from towpath.contracts.data_plane import Offset
from towpath.contracts.job import Output, ResolvedInput

READ = ResolvedInput(name="jfk/site/a", site="jfk", stream="IN", subject=None, from_device=True)


@pytest.mark.parametrize(
    ("made", "golden"),
    [
        (data_plane.DEVICE_SUBJECTS, "site.>"),
        (data_plane.device_subject("site/departures"), "site.departures"),
        (data_plane.topic_of("stats.hourly"), "stats/hourly"),
        (data_plane.rejected_topic("stats/hourly"), "stats/hourly/rejected"),
        (data_plane.sink_subject("jfk", "lga", "hourly", 3), "sink.jfk.lga.hourly.3"),
        (data_plane.rejected_subject("jfk", "lga", "hourly", "*"), "reject.jfk.lga.hourly.*"),
        (data_plane.shadow_subject("sink.jfk.lga.hourly.3"), "shadow.sink.jfk.lga.hourly.3"),
        (data_plane.closed_subject("jfk", "OUT_hourly"), "closed.jfk.OUT_hourly"),
        (data_plane.closed_shadow_subject("jfk", "hourly"), "shadow.closed.jfk.hourly"),
        (data_plane.api_prefix("jfk"), "$JS.jfk.API"),
        (data_plane.MQTT_STORE, "$MQTT.msgs."),
        (data_plane.INTAKE_SUBJECTS, "$MQTT.msgs.site.>"),
        (data_plane.intake_subject("site.departures"), "$MQTT.msgs.site.departures"),
        (data_plane.METRICS_SUBJECT, "towpath.site-metrics"),
        (data_plane.MQTT_DELIVERY, "towpath.mqtt."),
        (data_plane.MQTT_STREAM, "$MQTT_msgs"),
        (data_plane.ARRIVED_STREAM, "ARRIVED"),
    ],
)
def test_subject_when_made_then_is_the_one_that_meshes_use(made: str, golden: str) -> None:
    assert made == golden


@pytest.mark.parametrize(
    ("made", "golden"),
    [
        (data_plane.IN_STREAM, "IN"),
        (data_plane.device_stream("site/departures"), "IN"),
        (data_plane.device_stream("site/metrics"), "METRICS"),
        (data_plane.device_stream("site/metrics/more"), "IN"),
        (data_plane.output_stream("hourly"), "OUT_hourly"),
        (data_plane.output_stream("hourly", 2), "OUT_hourly_2"),
        (data_plane.rejected_stream("OUT_hourly_2"), "REJECTED_hourly_2"),
        (data_plane.live_stream("OUT_hourly"), "LIVE_OUT_hourly"),
        (data_plane.shadow_stream("hourly"), "SHADOW_hourly"),
        (data_plane.mirror_stream("jfk", "IN"), "MIRROR_jfk_IN"),
        (READ.local_stream("lga"), "MIRROR_jfk_IN"),
        (READ.local_stream("jfk"), "IN"),
    ],
)
def test_stream_when_named_then_is_the_one_that_sites_keep(made: str, golden: str) -> None:
    assert made == golden


@pytest.mark.parametrize(("stream", "turn"), [("OUT_hourly", 0), ("OUT_hourly_1", 1), ("OUT_a-2_12", 12)])
def test_output_when_it_is_of_a_turn_then_its_name_tells_which(stream: str, turn: int) -> None:
    assert data_plane.turn_of(stream) == turn


@pytest.mark.parametrize(
    ("subjects", "epochs"),
    [
        (["sink.jfk.lga.hourly.3"], [3]),
        (
            [
                "shadow.sink.jfk.lga.hourly.12",
                "shadow.reject.jfk.lga.hourly.12",
                "shadow.sink.jfk.jfk.hourly.2",
            ],
            [2, 12],
        ),
        (["closed.jfk.OUT_hourly"], []),
    ],
)
def test_epochs_when_a_stream_has_subjects_then_are_their_last_tokens(
    subjects: list[str], epochs: list[int]
) -> None:
    assert data_plane.epochs_of(subjects) == epochs


@pytest.mark.parametrize("is_rejected", [False, True])
@pytest.mark.parametrize("wrapped", [str, data_plane.shadow_subject])
def test_subject_of_results_when_parsed_then_gives_the_parts_it_was_made_of(
    wrapped: Callable[[str], str], is_rejected: bool
) -> None:
    made = data_plane.rejected_subject if is_rejected else data_plane.sink_subject

    parsed = data_plane.ResultSubject.of(wrapped(made("jfk", "lga", "hourly", 12)))

    assert parsed == (is_rejected, "jfk", "lga", "hourly", 12)


def test_subject_of_results_when_it_was_stored_before_subjects_had_owners_then_gives_the_rest() -> None:
    assert data_plane.ResultSubject.of("sink.jfk.hourly.3") == (False, "jfk", "", "hourly", 3)


@pytest.mark.parametrize(
    "subject", ["closed.jfk.OUT_hourly", "shadow.closed.jfk.hourly", "sink.a.b.c.d.3", "site.a.b.c.1"]
)
def test_subject_when_it_is_not_of_results_then_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|no subject"):
        data_plane.ResultSubject.of(subject)


def test_headers_and_metadata_when_read_by_another_version_then_have_the_names_they_had() -> None:
    assert (data_plane.MESSAGE_ID_HEADER, data_plane.RESULT_ID_HEADER, data_plane.BATCH_HEADER) == (
        "Nats-Msg-Id",
        "Towpath-Result-Id",
        "Towpath-Batch",
    )
    assert data_plane.MQTT_QOS_HEADER == ("Nmqtt-Pub", "1")
    assert (data_plane.OVERLAP, data_plane.DIVERTED) == ("towpath-overlap", "towpath-diverted")
    assert (data_plane.OUTPUT_SERIAL, data_plane.REJECTED_SERIAL) == (
        "towpath-output-serial",
        "towpath-rejected-serial",
    )
    assert (data_plane.OPERATION, data_plane.EPOCHS, data_plane.UNSETTLED) == (
        "towpath-operation",
        "towpath-epochs",
        "towpath-unsettled",
    )


@pytest.mark.parametrize(
    ("mark", "span"), [("", (0, 0)), ("7-", (7, sys.maxsize)), ("7-19", (7, 19)), ("0-4", (0, 4))]
)
def test_overlap_when_a_stream_is_marked_then_spans_these_serials(mark: str, span: tuple[int, int]) -> None:
    assert data_plane.overlap_range(mark) == span


def test_label_when_batches_are_of_one_run_then_they_are_in_the_order_of_numbers() -> None:
    labels = [data_plane.batch_label(generation, batch) for generation, batch in ((1, 9), (1, 10), (2, 0))]
    assert labels == ["1.9", "1.10", "2.0"]
    assert sorted(reversed(labels), key=data_plane.label_order) == labels
    assert data_plane.batch_of({}) == "0.0"


def test_identity_when_made_of_a_life_and_an_input_then_is_the_one_that_outputs_hold() -> None:
    life = data_plane.life_code("2026-01-01T00:00:00Z")
    assert life == "c169f6cf"
    assert data_plane.input_code("jfk", "IN", "site.departures") == "90d7e5"
    assert data_plane.input_code("jfk", "OUT_clean", None) == "5ddc0f"
    assert data_plane.stored_id(life, "hourly/1/2") == "c169f6cf/hourly/1/2"
    assert data_plane.shadow_id("sink.jfk.lga.hourly.3", "a/b") == "3/a/b"


def test_identity_when_a_message_waits_in_a_shadow_then_is_the_one_it_has_in_the_output() -> None:
    assert data_plane.output_id({"Nats-Msg-Id": "3/a/b", "Towpath-Result-Id": "a/b"}) == "a/b"
    assert data_plane.output_id({"Nats-Msg-Id": "a/b"}) == "a/b"
    assert data_plane.output_id({}) == ""


@pytest.mark.parametrize(
    ("document", "offset"),
    [
        ({"serial": 7}, Offset(7)),
        ({"serial": -1}, Offset(-1)),
        ({"serial": 7, "nudges": 2}, Offset(7, 2)),
        ({"serial": 7, "shares": {"=a": 0.5}}, Offset(7, shares={"=a": 0.5})),
        ({"serial": 7, "stored_at": "2026-11-25T08:00:00.5Z"}, Offset(7, 0, "2026-11-25T08:00:00.5Z")),
    ],
)
def test_offset_when_a_checkpoint_holds_it_then_is_read_and_written_alike(
    document: dict[str, int], offset: Offset
) -> None:
    assert Offset.of(document) == offset
    assert offset.document() == document


def test_dead_letter_when_a_job_names_none_then_is_beside_its_topic() -> None:
    assert Output(site="jfk", topic="stats/hourly").rejected_topic == "stats/hourly/rejected"


@pytest.mark.parametrize(
    ("user", "site", "prefix"),
    [
        ("jfk.agent", "jfk", "$JS.jfk.API"),
        ("jfk.engine", "lga", "towpath.read.jfk.lga"),
        ("jfk.agent", "hub", "towpath.read.jfk.hub"),
        ("hub.monitor", "jfk", "$JS.jfk.API"),
        ("hub.coordinator", "hub", "$JS.hub.API"),
        (None, "jfk", "$JS.jfk.API"),
    ],
)
def test_user_when_it_calls_jetstream_of_another_site_then_asks_at_its_gate(
    user: str | None, site: str, prefix: str
) -> None:
    assert data_plane.api_for(user, site) == prefix


def test_message_when_it_was_stored_once_more_then_has_both_times() -> None:
    headers = {"Nats-Time-Stamp": "2026-01-01T00:00:02Z", "Towpath-Stored-At": "2026-01-01T00:00:01Z"}
    assert data_plane.storing_times(headers) == ["2026-01-01T00:00:02Z", "2026-01-01T00:00:01Z"]
