"""The page's view of queries: what it asks of the mesh, and what it makes of answers."""

from __future__ import annotations

from typing import Any

import pytest

from running.page_modules import page_result
from towpath.composition.speck import as_name

MESH = """
    const asked = [];
    const open = text => new ReadableStream({
        start: flow => { if (text) flow.enqueue(new TextEncoder().encode(text)); }});
    globalThis.fetch = async (path, { method, body }) => {
        asked.push({ path, method, body: body && JSON.parse(body) });
        const found = mesh[`${method} ${path.split("?")[0]}`] ?? "";
        return typeof found === "string" ? new Response(open(found)) : Response.json(found);
    };
    const until = async holds => { while (!holds()) await new Promise(resolve => setTimeout(resolve, 5)); };
"""
"""Answers requests by `mesh`: a text is a stream of events that goes on, anything else is JSON."""

VIEW = """
    const { QueriesView } = await load("queries");
    const model = { sites: new Map([["jfk", {}]]), events: [] };
    const view = new QueriesView({ model, report() {} });
    view.show();
    const place = new Node("main");
    place.append(...view.element.flat());
    const button = name => place.all("button").find(one => one.textContent === name);
    await until(() => !view.reading && !view.explain.disabled);
"""
"""The view, when it has shown what runs, and its first text is checked."""

CHECKED: dict[str, Any] = {
    "mistake": None,
    "queries": [],
    "placeholders": [],
    "offers": [],
    "offers_begin": 0,
}
"""Answer to a check of a right text."""


def running(name: str, **more: Any) -> dict[str, Any]:
    about = {"topic": f"queries/{name}", "text": f"text of {name}", "filled": {}, "state": "completed"}
    return {"name": name, "at": "jfk", "webhook": None, "note": "", **about, **more}


def events_of(*values: Any) -> str:
    """Return answers of one query as server-sent events."""
    end = "2026-01-01T00:00:00Z"
    body = '{"key": {"query": "q"}, "window": {"end": "%s"}, "values": {"value": %s}}'
    return "".join(f"id: {n}\ndata: {body % (end, value)}\n\n" for n, value in enumerate(values, 1))


def test_answers_when_none_has_come_then_an_open_connection_counts_as_live() -> None:
    states = page_result(
        f"""async (load, mesh) => {{ {MESH}
            const {{ followAnswers }} = await load("live");
            const states = [];
            followAnswers("q", 5, () => {{}}, state => states.push(state));
            await until(() => states.length);
            return states;
        }}""",
        {"GET /queries/q/answers": ": answers follow\n\n"},
    )

    assert states == ["live"]


@pytest.mark.parametrize(("before", "after"), [("1.5", "[]"), ("[]", "1.5")])
def test_answers_when_a_number_becomes_a_list_then_they_are_shown_as_the_newest_is(
    before: str, after: str
) -> None:
    shown = page_result(
        f"""async (load, mesh) => {{ {MESH}
            const {{ AnswersPart }} = await load("query_answers");
            const part = new AnswersPart("q");
            await until(() => part.count === 2);
            part.end();
            return part.element.all("h3").map(title => title.parent.all("table").length);
        }}""",
        {"GET /queries/q/answers": events_of(before, after)},
    )

    # Numbers have a table beside their chart, and lists get theirs when they are drawn.
    assert shown == [0 if after == "[]" else 1]


def test_text_when_edited_again_then_is_checked_with_what_filled_its_placeholders() -> None:
    body = page_result(
        f"""async (load, mesh) => {{ {MESH} {VIEW}
            button("Edit").click();
            await until(() => asked.at(-1).body?.text === "text of delays");
            return asked.at(-1).body;
        }}""",
        {
            "GET /queries": {"queries": [running("delays", filled={"pod": "p1"})]},
            "POST /queries/check": {**CHECKED, "placeholders": ["pod"]},
        },
    )

    assert (body["text"], body["filled"]) == ("text of delays", {"pod": "p1"})


def test_words_when_asked_for_while_a_check_is_due_then_there_is_one_check() -> None:
    checks = page_result(
        f"""async (load, mesh) => {{ {MESH}
            const {{ QueryEditor }} = await load("query_editor");
            const told = [];
            const editor = new QueryEditor(() => ({{ at: "jfk", filled: {{}} }}), found => told.push(found));
            const later = new Promise(resolve => {{ setTimeout(resolve, 400); }});
            editor.area.tell("input");
            editor.area.tell("keydown", {{ key: " ", ctrlKey: true }});
            await later;
            await until(() => told.length);
            return asked.length;
        }}""",
        {"POST /queries/check": CHECKED},
    )

    # The later one would close the list again: no word is begun.
    assert checks == 1


def test_texts_when_one_comes_later_then_they_stay_in_the_order_of_names() -> None:
    names = page_result(
        f"""async (load, mesh) => {{ {MESH} {VIEW}
            mesh["GET /queries"] = mesh.later;
            view.show(new Set(["unanswered"]));
            await until(() => !view.reading);
            return place.all("article").map(card => card.getAttribute("aria-label"));
        }}""",
        {
            "GET /queries": {"queries": [running("b"), running("c")]},
            "later": {"queries": [running("a"), running("b", text="another"), running("c")]},
        },
    )

    assert names == ["a", "b", "c"]


def test_text_when_it_is_wrong_by_the_end_of_a_run_then_it_cannot_be_run() -> None:
    disabled = page_result(
        f"""async (load, mesh) => {{ {MESH} {VIEW}
            const answer = globalThis.fetch;
            const accepted = Promise.withResolvers();
            globalThis.fetch = async (path, options) => {{
                if (path === "/queries" && options.method === "POST") await accepted.promise;
                return answer(path, options);
            }};
            place.all("form")[0].tell("submit");
            mesh["POST /queries/check"] = mesh.wrong;
            view.editor.text = "wrong";
            await until(() => view.explain.disabled);
            accepted.resolve();
            await until(() => asked.at(-1).path === "/queries" && asked.at(-1).method === "GET");
            return button("Run").disabled;
        }}""",
        {
            "GET /queries": {"queries": []},
            "POST /queries": {},
            "POST /queries/check": CHECKED,
            "wrong": {**CHECKED, "mistake": {"message": "wrong"}},
        },
    )

    assert disabled


def test_text_when_the_browser_cannot_keep_it_then_it_is_said() -> None:
    reports = page_result(
        """async load => {
            localStorage.setItem = () => { throw new DOMException("no room", "QuotaExceededError"); };
            const { SavedQueries } = await load("saved_queries");
            const reports = [];
            const editing = { read: () => ({ name: "delays", text: "t" }) };
            const saved = new SavedQueries(editing, (...said) => reports.push(said));
            saved.element.all("button").find(one => one.textContent === "Save").click();
            return reports;
        }"""
    )

    assert reports == [["delays is not saved: no room", True]]


@pytest.mark.parametrize("stem", ["departures", "My - delays (1)", "2026 delays", "é", "a" * 47 + "-b"])
def test_file_when_imported_then_its_text_has_the_name_that_the_command_line_gives_it(stem: str) -> None:
    name = page_result(
        "async (load, file) => (await load('saved_queries')).nameOf(file)",
        f"{stem}.sight",
    )

    assert name == as_name(stem)
