/**
 * The view of one job: its progress, description and results. Without a name: a list of all jobs.
 */

import { look } from "./api.js";
import { TimeChart, marksOf } from "./charts.js";
import { make, mark, say } from "./elements.js";
import { columnsOf, continued, history } from "./history.js";
import { keptEvents } from "./live.js";
import { bytes, clock, dated, duration, number, rate, standbyText, tone } from "./wording.js";

const SPANS = [[300, "5 minutes"], [1800, "30 minutes"], [10_800, "3 hours"], [86_400, "a day"]];
const RESULTS = 20;
const RESULTS_MS = 2000;

const CHARTS = [
  { title: "Throughput", labels: ["events", "results"], metrics: ["job.event_rate", "job.result_rate"],
    fields: ["eventRate", "resultRate"], said: rate },
  { title: "Latency, end to end, p95", labels: ["p95"], metrics: ["job.latency.end_to_end.p95"], fields: ["latency"], said: duration },
  { title: "Backlog", labels: ["events"], metrics: ["job.backlog"], fields: ["backlog"], said: number },
  { title: "State in memory", labels: ["bytes"], metrics: ["job.state.memory"], fields: ["state"], said: bytes },
];

export class JobView {
  constructor({ model, migrate }, [name]) {
    this.model = model;
    this.name = name;
    if (!name) {
      this.list = make("div", { class: "columns" });
      this.element = [make("h2", {}, "Jobs"), this.list];
      return;
    }
    this.state = make("span", { class: "badge" });
    this.span = make("select", { "aria-label": "Time shown", onchange: () => this.#loadHistory() },
      SPANS.map(([seconds, label]) => make("option", { value: seconds }, label)));
    this.charts = CHARTS.map((chart) => ({ ...chart, plot: new TimeChart(chart.title, chart.labels, chart.said), base: null }));
    this.facts = make("dl", { class: "facts" });
    this.spec = make("pre", { class: "spec", tabindex: "0", "aria-label": "Specification" });
    this.results = make("tbody");
    this.resultsNote = make("p", { class: "soft small" });
    this.element = [
      make("div", { class: "row" }, make("h2", {}, name), this.state, make("span", { class: "grow" }), this.span,
        make("button", { type: "button", class: "primary", onclick: () => migrate(name, null) }, "Migrate …")),
      make("div", { class: "columns charts" }, this.charts.map((chart) => chart.plot.element)),
      make("div", { class: "columns" },
        make("section", { class: "card" }, make("h3", {}, "Progress and checkpoint"), this.facts),
        make("section", { class: "card" }, make("h3", {}, "Code and parameters"), this.spec)),
      make("section", { class: "card" }, make("div", { class: "results", tabindex: "0", role: "region", "aria-label": "Results" },
        make("table", {}, make("caption", {}, "Results as they come"),
          make("thead", {}, make("tr", {}, ["Serial", "Window or key", "Events", "Values"].map((t) => make("th", { scope: "col" }, t)))),
          this.results)), this.resultsNote),
    ];
    this.marks = [];
    this.aborting = new AbortController();
    this.#loadHistory();
    this.#loadMarks();
    this.#readResults();
  }

  show(sections = null) {
    if (!this.name) return this.#showList();
    const job = this.model.jobs.get(this.name);
    if (!job) return say(this.state, "no such job now");
    const status = this.model.statuses.get(this.name);
    say(this.state, `${job.state ?? "unknown"} at ${job.site}${job.operation ? ", changing" : ""}`);
    mark(this.state, "data-tone", tone(job.state));
    say(this.spec, specText(job.spec));
    this.#facts(job, status);
    if (sections?.has("events")) this.marks = [...this.oldMarks ?? [], ...marksOf(this.model.events, this.name)];
    this.#draw();
    return undefined;
  }

  /** Stop all work in the background. */
  end() {
    this.aborting?.abort();
    clearTimeout(this.reading);
    for (const chart of this.charts ?? []) chart.plot.end();
  }

  /** Follow a change of colours. */
  repaint() {
    for (const chart of this.charts ?? []) chart.plot.end(true);
    this.show();
  }

  #showList() {
    const cards = [...this.model.jobs.keys()].sort();
    const key = cards.join("\n");
    if (key === this.listed) return;
    this.listed = key;
    this.list.replaceChildren(...cards.map((name) => make("section", { class: "card" },
      make("h3", {}, make("a", { href: `#job/${name}` }, name)),
      make("p", { class: "soft" }, `${this.model.jobs.get(name).spec.operator.kind} at ${this.model.jobs.get(name).site}`))));
    if (!cards.length) this.list.append(make("p", { class: "empty" }, "No jobs yet."));
  }

  #facts(job, status) {
    const size = this.model.ofJob(this.name, "job.checkpoint.size");
    const standby = this.model.standbys.get(this.name);
    const facts = [
      ["Pipeline", job.pipeline ?? "none"], ["Epoch", job.epoch], ["Reads", job.inputs.map((input) => input.name).join(", ")],
      ["Writes", `${job.output.topic} at ${job.output.site}`], ["Micro-batch", status?.batch ?? "–"],
      ["Took", duration(status?.batch_s)], ["Committed", clock(status?.committed_at)],
      ["Checkpoint at", Object.entries(status?.serials ?? {}).map(([name, serial]) => `${name}: ${serial}`).join(", ") || "–"],
      ...(size === null ? [] : [["Checkpoint's size", bytes(size)]]),
      ["Events, results, rejected", status ? `${number(status.events)}, ${number(status.results)}, ${number(status.rejected)}` : "–"],
      ["Restarts", status?.restarts ?? "–"],
      ...(standby ? [["Standby", standbyText(standby)]] : []),
      ...(status?.retried_at ? [["Next attempt", clock(status.retried_at)]] : []),
      ...(status?.error ? [["Error", status.error]] : []),
    ];
    if (this.facts.children.length !== facts.length * 2) {
      this.facts.replaceChildren(...facts.flatMap(([term]) => [make("dt", {}, term), make("dd")]));
    }
    facts.forEach(([term, text], i) => {
      say(this.facts.children[2 * i], term);
      say(this.facts.children[2 * i + 1], text);
    });
  }

  #draw() {
    const samples = this.model.samples.get(this.name) ?? [];
    const since = Date.now() / 1000 - Number(this.span.value);
    for (const chart of this.charts) {
      const base = chart.base ?? [[], ...chart.metrics.map(() => [])];
      const columns = continued(base, samples, chart.fields);
      const first = columns[0].findIndex((at) => at >= since);
      const shown = first < 0 ? columns.map(() => []) : columns.map((column) => column.slice(first));
      chart.plot.show(shown, this.marks, [Math.max(since, shown[0][0] ?? since), Math.max(Date.now() / 1000, shown[0].at(-1) ?? 0)]);
    }
  }

  async #loadHistory() {
    const since = Date.now() / 1000 - Number(this.span.value);
    try {
      const metrics = this.charts.flatMap((chart) => chart.metrics);
      const series = await history(metrics, [`job:${this.name}`], { since, signal: this.aborting.signal });
      for (const chart of this.charts) chart.base = columnsOf(series.filter((one) => chart.metrics.includes(one.metric)), chart.metrics);
    } catch {
      // There are no samples, or the collector is away: show the page's own samples.
      for (const chart of this.charts) chart.base = null;
    }
    if (!this.aborting.signal.aborted) this.show();
  }

  async #loadMarks() {
    try {
      const known = new Set(this.model.events.map((event) => event.serial));
      const events = await keptEvents(null, this.aborting.signal);
      this.oldMarks = marksOf(events.filter((event) => !known.has(event.serial)), this.name);
      this.marks = [...this.oldMarks, ...marksOf(this.model.events, this.name)];
    } catch {
      this.oldMarks = [];
    }
  }

  async #readResults() {
    try {
      const found = await look(`/jobs/${this.name}/results?limit=${RESULTS}`, { signal: this.aborting.signal });
      if (found.last !== this.lastResult) {
        this.lastResult = found.last;
        this.results.replaceChildren(...found.results.map(resultRow));
      }
      say(this.resultsNote, `${found.last ? `${number(found.last)} so far` : "None yet"}, in ${found.stream} at ${found.site}`);
    } catch (error) {
      if (this.aborting.signal.aborted) return;
      say(this.resultsNote, `Results cannot be read: ${error.message}`);
    }
    this.reading = setTimeout(() => this.#readResults(), RESULTS_MS);
  }
}

function resultRow({ serial, bytes: size, body }) {
  const about = body?.window ? `${dated(body.window.start)} – ${clock(body.window.end)}` : "";
  const key = body?.key ? Object.values(body.key).join(", ") : "";
  return make("tr", {}, make("td", {}, serial), make("td", {}, [about, key].filter(Boolean).join(" · ")),
    make("td", { class: "number" }, body?.count ?? ""),
    make("td", { class: "code" }, body ? JSON.stringify(body.values ?? body) : `${bytes(size)}, not shown`));
}

/** Return the specification without fields at their default. */
function specText(spec) {
  const plain = (value) => {
    if (Array.isArray(value)) return value.map(plain);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).filter(([, v]) => v !== null && !(Array.isArray(v) && !v.length))
      .map(([k, v]) => [k, plain(v)]));
  };
  return JSON.stringify(plain(spec), null, 2);
}
