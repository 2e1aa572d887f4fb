/**
 * The view of queries: write a text and run it, and see those that run with their answers.
 */

import { ask, change, look } from "./api.js";
import { make, mark, say } from "./elements.js";
import { AnswersPart } from "./query_answers.js";
import { QueryEditor } from "./query_editor.js";
import { SavedQueries } from "./saved_queries.js";
import { bytes, duration, tone } from "./wording.js";

const EXAMPLE = `departures = STREAM FROM topic(topic="site/departures", sites="*", time="departed_at", delay="24 HOURS");
mean_delay = COMPUTE AVG(delay, 1 HOURS) EVERY 10 MINUTES BY carrier;
`;
/** Texts whose answers are followed at a time: browsers open six connections, and one follows the mesh. */
const MOST_FOLLOWED = 3;
const NAME = "[a-z][a-z0-9-]{0,47}";

export class QueriesView {
  constructor({ model, report }) {
    this.model = model;
    this.report = report;
    this.running = new Map();
    this.filled = new Map();
    this.aborting = new AbortController();
    this.editor = new QueryEditor(() => ({ at: this.at.value, filled: this.#filled() }), (found) => this.#checked(found));
    this.name = make("input", { required: true, pattern: NAME, maxlength: 48, spellcheck: "false", autocomplete: "off", placeholder: "delays" });
    this.at = make("select", { required: true, onchange: () => this.editor.check() });
    this.places = make("div", { class: "row places" });
    this.webhook = make("input", { type: "url", pattern: "https?://.+", spellcheck: "false", autocomplete: "off", placeholder: "none" });
    this.again = make("input", { type: "checkbox" });
    this.run = make("button", { type: "submit", class: "primary", disabled: true }, "Run");
    this.explain = make("button", { type: "button", disabled: true, onclick: () => this.#explain(this.plan, this.#wanted()) }, "Explain");
    this.plan = make("div", { role: "status", "aria-label": "Explanation" });
    this.summary = make("p", { class: "soft small summary" });
    this.saved = new SavedQueries({ read: () => ({ name: this.name.value, text: this.editor.text }), write: (name, text) => this.#edit({ name, text, filled: {} }) }, report);
    this.list = make("div", { class: "running" });
    this.nothing = make("p", { class: "empty" }, "No queries run.");
    this.element = [make("h2", {}, "Queries"), this.#form(), make("section", { "aria-label": "Running queries", class: "running" }, this.list, this.nothing)];
    this.told = 0;
    this.#read();
    this.editor.text = EXAMPLE;
  }

  show(sections = null) {
    this.#sites();
    const told = this.model.events.findLast(({ subject }) => subject.split(".")[3] === "pipeline")?.serial ?? 0;
    // Each snapshot has all sections, also that of services without an answer.
    if (told !== this.told || sections?.has("unanswered")) this.#read();
    this.told = told;
  }

  /** Stop all work in the background. */
  end() {
    this.aborting.abort();
    this.editor.end();
    for (const { answers } of this.running.values()) answers?.end();
  }

  /** Follow a change of colours. */
  repaint() {
    for (const { answers } of this.running.values()) answers?.repaint();
  }

  #form() {
    return make("section", { class: "card" }, make("form", { onsubmit: (event) => { event.preventDefault(); this.#run(); } },
      this.saved.element, this.editor.element, this.summary, this.places,
      make("div", { class: "row asked" }, make("label", {}, "Name", this.name), make("label", {}, "Answers at site", this.at),
        make("label", {}, "POST them to, too", this.webhook),
        make("label", { class: "check" }, this.again, "Jobs whose state does not fit may begin again"), make("span", { class: "grow" }), this.explain, this.run), this.plan));
  }

  #sites() {
    const names = [...this.model.sites.keys()].sort();
    if (names.join() === this.siteNames) return;
    const chosen = this.at.value;
    this.siteNames = names.join();
    this.at.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    if (names.includes(chosen)) this.at.value = chosen;
  }

  #checked({ mistake, queries, placeholders }) {
    this.run.disabled = this.explain.disabled = mistake !== null;
    say(this.summary, queries.map((one) => `${one.query}: ${one.moments}${one.by.length ? `, by ${one.by.join(", ")}` : ""}`).join(" · "));
    if (placeholders.join() === this.placeholders) return;
    this.placeholders = placeholders.join();
    this.places.replaceChildren(...placeholders.map((name) => make("label", {}, `{${name}}`,
      make("input", { value: this.filled.get(name) ?? "", oninput: (event) => { this.filled.set(name, event.target.value); this.editor.check(); } }))));
  }

  #filled() {
    // Before the first check it is not known which names a text has: all are given.
    const wanted = this.placeholders?.split(",");
    return Object.fromEntries([...this.filled].filter(([name, text]) => text && (wanted?.includes(name) ?? true)));
  }

  #wanted() {
    return { text: this.editor.text, at: this.at.value, filled: this.#filled(), ...(this.name.value ? { name: this.name.value } : {}) };
  }

  #edit({ name, text, filled, at, webhook }) {
    this.filled = new Map(Object.entries(filled));
    this.placeholders = null;
    this.name.value = name;
    this.webhook.value = webhook ?? "";
    if (at) this.at.value = at;
    this.editor.text = text;
    this.editor.area.focus();
  }

  async #run() {
    const wanted = this.#wanted();
    this.run.disabled = true;
    this.plan.replaceChildren();
    try {
      const dropped = this.again.checked ? (await ask("/queries/explain", wanted)).jobs.map((job) => job.name) : [];
      const webhook = this.webhook.value ? { webhook: this.webhook.value } : {};
      await change("POST", "/queries", { ...wanted, ...webhook, drop_state: dropped });
      this.again.checked = false;
      this.report(`${wanted.name} is being started.`);
      this.#read();
    } catch (error) {
      this.plan.replaceChildren(make("p", { class: "problem" }, error.message));
    }
    // The text may have changed meanwhile. Both buttons need a right one.
    this.run.disabled = this.explain.disabled;
  }

  async #explain(place, wanted) {
    try {
      place.replaceChildren(planOf(await ask("/queries/explain", wanted)));
    } catch (error) {
      place.replaceChildren(make("p", { class: "problem" }, error.message));
    }
  }

  async #read() {
    this.stale = true;
    if (this.reading) return;
    this.reading = true;
    while (this.stale) {
      this.stale = false;
      try {
        this.#fill((await look("/queries", { signal: this.aborting.signal })).queries);
      } catch {
        // What was shown stays: the header says if the mesh does not answer.
      }
    }
    this.reading = false;
  }

  #fill(queries) {
    const wanted = new Set(queries.map(({ name }) => name));
    for (const [name, part] of this.running) if (!wanted.has(name)) this.#forget(name, part);
    for (const asked of queries) {
      const known = this.running.get(asked.name);
      if (known && saidOf(known.asked) !== saidOf(asked)) this.#forget(asked.name, known);
      if (this.running.has(asked.name)) this.#stands(known, asked);
      else this.#add(asked);
    }
    const elements = queries.map(({ name }) => this.running.get(name).element);
    if (elements.some((element, i) => element !== this.list.children[i])) this.list.append(...elements);
    this.nothing.hidden = queries.length > 0;
  }

  #add(asked) {
    const place = make("div");
    const badge = make("span", { class: "badge" });
    const plan = make("div", { role: "status", "aria-label": `Explanation of ${asked.name}` });
    const button = (label, onclick) => make("button", { type: "button", class: "slim", "aria-label": `${label} ${asked.name}`, onclick }, label);
    const toggle = button("Answers", () => this.#follow(part, !part.answers));
    const element = make("article", { class: "card", "aria-label": asked.name },
      make("div", { class: "row" }, make("h3", {}, asked.name), badge, make("span", { class: "soft small" }, `topic ${asked.topic} at ${asked.at}${asked.webhook ? `, and to ${asked.webhook}` : ""}`),
        make("span", { class: "grow" }), button("Explain", () => this.#explain(plan, { text: asked.text, at: asked.at, filled: asked.filled, name: asked.name })),
        button("Edit", () => this.#edit(asked)), toggle, button("Remove", () => this.#remove(asked.name))),
      place, make("details", {}, make("summary", { class: "small" }, "Text"), make("pre", { class: "spec" }, asked.text)), plan);
    const part = { asked, badge, element, place, toggle, answers: null };
    this.running.set(asked.name, part);
    this.list.append(element);
    this.#stands(part, asked);
    if (this.#followed().length < MOST_FOLLOWED) this.#follow(part, true);
  }

  #forget(name, part) {
    part.answers?.end();
    part.element.remove();
    this.running.delete(name);
  }

  #followed() {
    return [...this.running.values()].filter(({ answers }) => answers);
  }

  /** Follow the answers of a text, or end that. One more than may be followed ends the first one. */
  #follow(part, wanted) {
    part.answers?.end();
    if (wanted && this.#followed().length === MOST_FOLLOWED) this.#follow(this.#followed()[0], false);
    part.answers = wanted ? new AnswersPart(part.asked.name) : null;
    part.place.replaceChildren(...wanted ? [part.answers.element] : []);
    mark(part.toggle, "aria-pressed", wanted);
  }

  #stands(part, asked) {
    part.asked = asked;
    say(part.badge, asked.note ? `${asked.state}: ${asked.note}` : asked.state === "completed" ? "running" : asked.state === "running" ? "changing" : asked.state);
    mark(part.badge, "data-tone", asked.state === "running" ? "warn" : tone(asked.state));
  }

  async #remove(name) {
    if (!confirm(`End the queries ${name}? They finish what has come, and forget what they know. Their answers stay.`)) return;
    try {
      await change("DELETE", `/queries/${name}`);
      this.report(`${name} is being removed.`);
    } catch (error) {
      this.report(error.message, true);
    }
    this.#read();
  }
}

const saidOf = ({ text, at, filled, webhook }) => JSON.stringify([text, at, filled, webhook]);

/** A table of what each site keeps, and for which queries. */
function planOf({ sites, scheduler }) {
  const rows = sites.flatMap((share) => share.parts.map((part, i) => make("tr", {}, make("td", {}, i ? "" : share.site),
    make("td", {}, i ? "" : duration(share.pane_s)), make("td", { class: "code" }, `${part.part} of ${part.of}`), make("td", {}, part.serves.join(", ")))));
  const crossing = [...new Set(sites.map((share) => share.bytes_per_key_and_hour))].filter(Boolean).map(bytes);
  return make("div", { class: "scroll" }, make("table", {}, make("caption", {}, "What is computed where"),
    make("thead", {}, make("tr", {}, ["Site", "Pane", "Keeps", "For"].map((title) => make("th", { scope: "col" }, title)))), make("tbody", {}, rows)),
  scheduler ? make("p", { class: "soft small" }, `Answers are made at a site that the policy ${scheduler} finds, and kept at the site that asks.`) : null,
  make("p", { class: "soft small" }, crossing.length ? `Each ${scheduler ? "" : "other "}site sends about ${crossing.join(" or ")} per key and hour.` : "Nothing leaves the site that asks."));
}
