"""Count events per sensor and second with PyFlink: Flink SQL inside its JVM.

Flink's wheel has no MQTT connector, so this process bridges: events to a socket that Flink's socket source
reads, results from a socket that Flink's socket sink writes.
"""

from __future__ import annotations

import socket
import threading

from connection import Settings, connected, settings
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

TIME = "'yyyy-MM-dd''T''HH:mm:ss.SSSX'"
HOST = "127.0.0.1"


def main() -> None:
    """Run until stdin ends."""
    chosen = settings()
    events, results = _listening(), _listening()
    threading.Thread(target=_take_results, args=(chosen, results), daemon=True).start()
    threading.Thread(target=_give_events, args=(chosen, events), daemon=True).start()
    environment = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(environment)
    jvm = get_gateway().jvm
    lines = DataStream(environment._j_stream_execution_environment.socketTextStream(HOST, _port(events)))
    tables.create_temporary_view("events", lines, _schema(chosen))
    counts = tables.sql_query(_query(chosen))
    texts = tables._j_tenv.toDataStream(counts._j_table, jvm.java.lang.Class.forName("java.lang.String"))
    text = jvm.org.apache.flink.api.common.serialization.SimpleStringSchema()
    texts.writeToSocket(HOST, _port(results), text)
    environment.execute("count")


def _schema(chosen: Settings) -> Schema:
    return (
        Schema.new_builder()
        .column("f0", DataTypes.STRING())
        .column_by_expression("sensor", "JSON_VALUE(f0, '$.sensor')")
        .column_by_expression("at", f"TO_TIMESTAMP(JSON_VALUE(f0, '$.at'), {TIME})")
        .watermark("at", f"`at` - INTERVAL '{chosen.allowed_s:.3f}' SECOND")
        .build()
    )


def _query(chosen: Settings) -> str:
    return f"""
        SELECT JSON_OBJECT(
            'start' VALUE DATE_FORMAT(window_start, 'yyyy-MM-dd HH:mm:ss'),
            'sensor' VALUE sensor,
            'count' VALUE COUNT(*)
        ) || CHR(10)
        FROM TUMBLE(TABLE events, DESCRIPTOR(`at`), INTERVAL '{chosen.size_s:.3f}' SECOND)
        GROUP BY window_start, window_end, sensor
    """


def _listening() -> socket.socket:
    return socket.create_server((HOST, 0))


def _port(server: socket.socket) -> int:
    return server.getsockname()[1]


def _give_events(chosen: Settings, server: socket.socket) -> None:
    flink, _ = server.accept()
    connected(chosen, lambda payload: flink.sendall(payload + b"\n"), client_id="pyflink-in")


def _take_results(chosen: Settings, server: socket.socket) -> None:
    """Publish each line that Flink writes."""
    flink, _ = server.accept()
    client = connected(chosen, client_id="pyflink-out")
    with flink.makefile("rb") as lines:
        for line in lines:
            client.publish(chosen.results, line.rstrip(b"\n"), qos=1)


if __name__ == "__main__":
    main()
