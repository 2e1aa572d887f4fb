/**
 * The answers of running queries as they come: a chart for each query with a line for each key. Lists, such as
 * those of TOP_K, are tables.
 */

import { MOST_LINES, TimeChart } from "./charts.js";
import { KeyedTable, make, say } from "./elements.js";
import { estimate, intervalOf } from "./intervals.js";
import { followAnswers } from "./live.js";
import { clock, dated, number, seconds } from "./wording.js";

/** Newest answers that are read at first, of all queries together. */
const NEWEST = 2000;
/** Newest points of a line. */
const POINTS = 300;
/** Newest lists that are shown of a query, and rows of each. */
const LISTS = 4;
const ROWS = 20;
const DRAW_MS = 250;

export class AnswersPart {
  constructor(name) {
    this.queries = new Map();
    this.count = 0;
    this.aborting = new AbortController();
    this.note = make("p", { class: "soft small", role: "status" }, "No answers yet.");
    this.charts = make("div", { class: "columns charts" });
    this.element = make("div", { class: "answers" }, this.charts, this.note);
    this.stands = "";
    followAnswers(name, NEWEST, (_, answer) => this.#take(answer), (state) => this.#connection(state), this.aborting.signal);
  }

  /** Stop all work in the background. */
  end() {
    this.aborting.abort();
    clearTimeout(this.drawing);
    for (const part of this.queries.values()) part.end();
  }

  /** Follow a change of colours. */
  repaint() {
    for (const part of this.queries.values()) part.end(true);
    this.#draw();
  }

  #take({ key, window, values }) {
    const { query, ...rest } = key;
    const isList = Array.isArray(values.value);
    // Stored answers may be those of an earlier text, in which the query was another.
    if (this.queries.get(query)?.isList !== isList) this.#add(query, isList);
    this.queries.get(query).take(labelOf(rest), window.end, values);
    this.count += 1;
    this.newest = window.end;
    this.drawing ??= setTimeout(() => this.#draw(), DRAW_MS);
  }

  #add(query, isList) {
    const known = this.queries.get(query);
    const part = isList ? new ListAnswers(query) : new LineAnswers(query);
    this.queries.set(query, part);
    if (known) known.element.replaceWith(part.element);
    else this.charts.append(part.element);
    known?.end();
  }

  #connection(state) {
    this.stands = state === "live" ? "" : state === "lost" ? "; reconnecting" : "; ended";
    this.drawing ??= setTimeout(() => this.#draw(), DRAW_MS);
  }

  #draw() {
    this.drawing = null;
    for (const part of this.queries.values()) part.draw();
    say(this.note, this.count ? `${number(this.count)} answers read, the newest for ${dated(this.newest)}${this.stands}` : `No answers yet${this.stands}.`);
  }
}

const labelOf = (key) => Object.values(key).join(" · ");

/** Answers that are numbers: a chart of the keys with the newest answers. Estimates have their interval. */
class LineAnswers {
  isList = false;

  constructor(query) {
    this.keys = new Map();
    this.chart = new TimeChart(query, [""], estimate);
    this.table = new KeyedTable(`Newest answers of ${query}`, [["Key", ""], ["At", ""], ["Answer", "number"]], "");
    this.more = make("p", { class: "soft small" });
    this.details = make("details", {}, make("summary", { class: "small" }, "As a table"), this.table.element);
    this.element = this.chart.element;
    this.element.append(this.more, this.details);
  }

  take(label, end, values) {
    if (!this.keys.has(label)) this.keys.set(label, new Map());
    const points = this.keys.get(label);
    points.set(seconds(end), { value: values.value ?? null, interval: intervalOf(values) });
    if (points.size > POINTS) points.delete(points.keys().next().value);
  }

  draw() {
    const labels = [...this.keys.keys()].sort();
    const shown = labels.slice(0, MOST_LINES);
    this.chart.relabel(shown);
    const moments = [...new Set(shown.flatMap((label) => [...this.keys.get(label).keys()]))].sort((a, b) => a - b).slice(-POINTS);
    const column = (field) => shown.map((label) => moments.map((at) => this.keys.get(label).get(at)?.[field] ?? null));
    const [first, last] = [moments[0], moments.at(-1)];
    this.chart.show([moments, ...column("value")], [], first === last ? [first - 30, last + 30] : [first, last], column("interval"));
    say(this.more, labels.length > shown.length ? `Lines of ${shown.length} keys of ${labels.length}. The table has all.` : "");
    this.table.show(labels.map((label) => {
      const [at, { value, interval }] = [...this.keys.get(label)].at(-1);
      return [label, [label || "–", clock(at), estimate(value, interval)]];
    }));
  }

  end(again = false) {
    this.chart.end(again);
  }
}

/** Answers that are lists: a table for each of the newest. */
class ListAnswers {
  isList = true;

  constructor(query) {
    this.query = query;
    this.newest = new Map();
    this.lists = make("div", { class: "lists" });
    this.element = make("section", { class: "card chart" }, make("h3", {}, query), this.lists);
  }

  take(label, end, { value }) {
    this.newest.delete(label);
    this.newest.set(label, [end, value]);
  }

  draw() {
    this.lists.replaceChildren(...[...this.newest].slice(-LISTS).sort().map(([label, [end, list]]) => listTable(label, end, list)));
  }

  end() {}
}

function listTable(label, end, list) {
  const fields = Object.keys(list[0] ?? {});
  const said = (value) => (typeof value === "number" ? number(value) : String(value));
  const kind = (value) => (typeof value === "number" ? "number" : null);
  return make("div", { class: "scroll" }, make("table", {}, make("caption", { class: "small" }, [label, `at ${dated(end)}`].filter(Boolean).join(", ")),
    make("thead", {}, make("tr", {}, fields.map((field) => make("th", { scope: "col", class: kind(list[0][field]) }, field)))),
    make("tbody", {}, list.slice(0, ROWS).map((row) => make("tr", {}, fields.map((field) => make("td", { class: kind(row[field]) }, said(row[field]))))))));
}
