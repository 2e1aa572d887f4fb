/**
 * The view of migrations: a list, one with its journal, or two side by side (`#migrations/A/B`).
 */

import { change, look } from "./api.js";
import { courseOf } from "./courses.js";
import { draw, make, say } from "./elements.js";
import { bytes, dated, duration, seconds, tone } from "./wording.js";

const SHOWN = 50;

export class MigrationsView {
  constructor({ model, report }, identifiers) {
    this.model = model;
    this.report = report;
    this.identifiers = identifiers.slice(0, 2);
    this.chosen = new Set(this.identifiers);
    this.detail = make("div", { class: "columns" });
    this.list = make("section", { class: "card" });
    this.compare = make("a", { href: "#migrations", "aria-disabled": "true" }, "Choose two to compare");
    this.element = [make("div", { class: "row" }, make("h2", {}, "Migrations"), make("span", { class: "grow" }), this.compare),
      this.detail, this.list];
    this.load();
  }

  show(sections = null) {
    if (sections?.has("operations") || sections?.has("events")) this.load();
  }

  /** Look them up, one look at a time. If something happened meanwhile, look once more after it. */
  async load() {
    if (this.loading) { this.again = true; return; }
    this.loading = true;
    try {
      const [{ operations }, ...views] = await Promise.all([look(`/migrations?limit=${SHOWN}`),
        ...this.identifiers.map((id) => look(`/migrations/${id}`))]);
      this.#showList(operations);
      this.#showDetail(views);
    } catch (error) {
      this.list.replaceChildren(make("p", { class: "problem" }, error.message));
    }
    this.loading = false;
    if (this.again) { this.again = false; this.load(); }
  }

  #showList(operations) {
    const key = JSON.stringify(operations.map((view) => [view.operation, view.state]));
    if (key === this.listed) return;
    this.listed = key;
    const titles = ["Compare", "Job", "From, to", "Strategy", "State", "Begun", "Took", "Downtime", "State moved", "Asked by"];
    const rows = operations.map((view) => make("tr", {},
      make("td", {}, make("input", { type: "checkbox", checked: this.chosen.has(view.operation),
        "aria-label": `Compare ${view.job}, ${dated(view.begun_at)}`, onchange: (event) => this.#choose(view.operation, event.target) })),
      make("td", {}, make("a", { href: `#migrations/${view.operation}` }, view.job)),
      make("td", {}, `${view.source} → ${view.target}`), make("td", {}, view.strategy),
      make("td", {}, make("span", { class: "badge", "data-tone": view.ended_at ? tone(view.state) : "accent" }, view.state.replace("_", " "))),
      make("td", {}, dated(view.begun_at)), make("td", {}, duration(view.figures?.total_s ?? took(view))),
      make("td", {}, duration(view.figures?.downtime_s)), make("td", {}, bytes(view.figures?.state_bytes)), make("td", {}, view.asked_by ?? "–")));
    this.list.replaceChildren(make("div", { class: "scroll" }, make("table", {}, make("caption", {}, "The latest migrations"),
      make("thead", {}, make("tr", {}, titles.map((t) => make("th", { scope: "col" }, t)))), make("tbody", {}, rows))));
    if (!rows.length) this.list.append(make("p", { class: "empty" }, "No job has moved yet."));
    this.#compareLink();
  }

  #choose(operation, box) {
    if (!box.checked) this.chosen.delete(operation);
    else this.chosen.add(operation);
    this.#compareLink();
  }

  #compareLink() {
    const two = [...this.chosen].slice(0, 2);
    const ready = two.length === 2;
    say(this.compare, ready ? "Compare the two chosen" : "Choose two to compare");
    this.compare.setAttribute("href", ready ? `#migrations/${two.join("/")}` : "#migrations");
    this.compare.setAttribute("aria-disabled", String(!ready));
  }

  #showDetail(views) {
    const key = JSON.stringify(views.map((view) => [view.state, view.journal.length]));
    if (key === this.detailed) return;
    this.detailed = key;
    const longest = Math.max(...views.map((view) => took(view) ?? 0), 0.001);
    this.detail.replaceChildren(...views.map((view, i) => this.#one(view, longest, i === 1)));
  }

  #one(view, longest, second) {
    const running = !view.ended_at;
    const holds = running && view.strategy === "twin" && view.state === "running";
    const finish = holds && make("button", { type: "button", onclick: () => this.#finish(view) }, `Leave it to ${view.target}`);
    const abort = running && make("button", { type: "button", onclick: () => this.#abort(view.operation) }, "Roll back");
    return make("section", { class: "card", "aria-label": `Migration ${view.operation}` },
      make("div", { class: "row" }, make("h3", {}, make("span", { class: second ? "key second" : "key" }), `${view.job}: ${view.source} → ${view.target}`),
        make("span", { class: "badge", "data-tone": running ? "accent" : tone(view.state) }, view.state.replace("_", " ")),
        make("span", { class: "grow" }), finish, abort),
      facts(view), timeline(view, longest, second), journal(view));
  }

  async #finish({ operation, job, target }) {
    try {
      await change("POST", `/migrations/${operation}/finish`);
      this.report(`${target} goes on with ${job} alone.`);
    } catch (error) {
      this.report(error.message, true);
    }
  }

  async #abort(operation) {
    try {
      await change("DELETE", `/migrations/${operation}`);
      this.report("The migration is being rolled back.");
    } catch (error) {
      this.report(error.message, true);
    }
  }
}

const took = (view) => (view.ended_at ? seconds(view.ended_at) - seconds(view.begun_at) : view.journal?.length
  ? seconds(view.journal.at(-1).at) - seconds(view.begun_at) : null);

function facts(view) {
  const { figures, forecast } = view;
  const known = [["Strategy", view.strategy], ["Asked by", view.asked_by ?? "–"], ["Begun", dated(view.begun_at)],
    ["Took", duration(figures?.total_s ?? took(view))], ["Predicted", forecast ? `${duration(forecast.total_s)}, ${bytes(forecast.state_bytes)}` : "–"],
    ["Downtime", figures?.downtime_s === null ? "none seen" : duration(figures?.downtime_s)],
    ["State moved", figures ? `${bytes(figures.state_bytes)}${figures.round_bytes.length > 1 ? ` in rounds of ${figures.round_bytes.map(bytes).join(", ")}` : ""}` : "–"],
    ...(figures?.compared ? [["Results compared, equal", figures.compared]] : []), ...(view.note ? [["Note", view.note]] : [])];
  return make("dl", { class: "facts" }, known.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]));
}

/** Return begin and end of each step, in seconds after the migration's begin. Steps may begin again. */
function spansOf(view) {
  const spans = new Map();
  for (const entry of view.journal) {
    const at = seconds(entry.at) - seconds(view.begun_at);
    const span = spans.get(entry.step) ?? { step: entry.step, from: at, to: at, phase: entry.phase };
    spans.set(entry.step, { ...span, to: at, phase: entry.phase });
  }
  return [...spans.values()];
}

function timeline(view, longest, second) {
  const spans = spansOf(view);
  const toCome = courseOf(view.strategy, view.journal, !view.ended_at).filter((step) => !spans.some((span) => span.step === step.step));
  const rows = spans.flatMap((span) => [make("span", {}, span.step),
    draw("svg", { viewBox: "0 0 1000 18", preserveAspectRatio: "none", "aria-hidden": "true" }, draw("rect", {
      class: `bar${second ? " second" : ""}${span.phase === "failed" ? " failed" : ""}`, rx: 3, height: 12, y: 3,
      x: (1000 * span.from) / longest, width: Math.max(3, (1000 * (span.to - span.from)) / longest) })),
    make("span", {}, duration(span.to - span.from))]);
  return make("div", { class: "timeline", role: "group", "aria-label": "Time for each step" }, rows,
    toCome.flatMap((step) => [make("span", { class: "soft" }, step.step), make("span"), make("span")]));
}

function journal(view) {
  const rows = view.journal.map((entry) => make("tr", {}, make("td", {}, duration(seconds(entry.at) - seconds(view.begun_at))),
    make("td", {}, entry.step), make("td", {}, entry.phase),
    make("td", { class: "code" }, Object.keys(entry.detail).length ? JSON.stringify(entry.detail).slice(0, 400) : "")));
  return make("details", {}, make("summary", {}, `Journal, ${rows.length} lines`), make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ["After", "Step", "Phase", "Detail"].map((t) => make("th", { scope: "col" }, t)))), make("tbody", {}, rows))));
}
