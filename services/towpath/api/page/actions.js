/**
 * The view of actions: migrate a job, apply a pipeline after a look at its plan, load and unload fault rules.
 */

import { ask, change, look } from "./api.js";
import { KeyedTable, make, say } from "./elements.js";
import { bytes, duration, number } from "./wording.js";

const PIPELINE = "application/json";
const YAML = "application/yaml";

const RULE = {
  name: "slow-operator",
  description: "Every hundredth event takes 20 ms longer",
  event: { point: "operator.event" },
  where: {},
  every: 100,
  actions: [{ fault: "delay", parameters: { ms: 20 } }],
  for_s: 60,
};

const mediaType = (text) => (/^\s*[{[]/.test(text) ? PIPELINE : YAML);

/** The name that a description gives its pipeline, in JSON or YAML: in YAML its own has no indent. */
const nameIn = (text) => {
  if (mediaType(text) === YAML) return /^["']?name["']?\s*:\s*["']?([a-z][a-z0-9-]*)/m.exec(text)?.[1] ?? "";
  try {
    return JSON.parse(text).name ?? "";
  } catch {
    return "";
  }
};

export class ActionsView {
  constructor({ model, migrate, report }) {
    this.model = model;
    this.report = report;
    this.rules = new KeyedTable("Loaded rules", [["Rule", ""], ["Where", ""], ["Looked", "number"], ["Acted", "number"], ["", ""]], "None.");
    this.element = [make("h2", {}, "Actions"), make("div", { class: "columns" },
      make("section", { class: "card" }, make("h3", {}, "Migrate a job"),
        make("p", { class: "soft" }, "You see the expected cost before you confirm. In the picture of the mesh you can also drag a job to a site."),
        make("div", { class: "buttons" }, make("button", { type: "button", class: "primary", onclick: () => migrate(null, null) }, "Choose job and site …"))),
      this.#faults()), this.#pipelines()];
  }

  show(sections = null) {
    if (sections && !sections.has("rules")) return;
    this.rules.show([...this.model.rules].map(([name, view]) => [name, [name, view.scopes.join(", "), number(view.count.looked),
      number(view.count.acted), () => make("button", { type: "button", class: "slim", "aria-label": `Unload ${name}`,
        onclick: () => this.#unload(name) }, "Unload")]]));
  }

  #pipelines() {
    const known = make("select", { "aria-label": "Begin with", onchange: (event) => this.#begin(event.target.value) }, make("option", { value: "" }, "an empty text"));
    look("/pipelines").then(({ pipelines }) => {
      known.append(...pipelines.map((view) => make("option", { value: view.pipeline }, `${view.pipeline}, version ${view.version}`)));
    }).catch(() => {});
    this.text = make("textarea", { class: "code", spellcheck: "false", required: true, rows: 16, oninput: () => this.#unplanned() });
    this.plan = make("div", { role: "status", "aria-label": "Plan" });
    this.apply = make("button", { type: "button", class: "primary", disabled: true, onclick: () => this.#applyPlan() }, "Apply as planned");
    return make("section", { class: "card" }, make("h3", {}, "Apply a pipeline"),
      make("form", { onsubmit: (event) => { event.preventDefault(); this.#planIt(); } },
        make("label", {}, "Begin with", known), make("label", {}, "Description, JSON or YAML", this.text), this.plan,
        make("div", { class: "buttons" }, make("button", { type: "submit" }, "Show the plan"), this.apply)));
  }

  async #begin(name) {
    this.#unplanned();
    if (!name) { this.text.value = ""; return; }
    try {
      this.text.value = JSON.stringify((await look(`/pipelines/${name}`)).spec, null, 2);
    } catch (error) {
      this.report(error.message, true);
    }
  }

  #unplanned() {
    this.planned = null;
    this.apply.disabled = true;
    this.plan.replaceChildren();
  }

  async #planIt() {
    const text = this.text.value;
    const name = nameIn(text);
    this.#unplanned();
    try {
      if (!name) throw new Error("the description has no name");
      const plan = await ask(`/pipelines/${name}/plan`, text, { type: mediaType(text) });
      this.planned = { name, text };
      this.plan.replaceChildren(planTable(plan));
      this.apply.disabled = plan.changes.every((planned) => planned.actions.join() === "keep");
    } catch (error) {
      this.plan.replaceChildren(make("p", { class: "problem" }, error.message));
    }
  }

  async #applyPlan() {
    const { name, text } = this.planned;
    this.apply.disabled = true;
    try {
      await change("PUT", `/pipelines/${name}`, text, { type: mediaType(text) });
      this.report(`Pipeline ${name} is being applied.`);
      location.hash = "#mesh";
    } catch (error) {
      this.plan.append(make("p", { class: "problem" }, error.message));
    }
  }

  #faults() {
    const text = make("textarea", { class: "code", spellcheck: "false", required: true, rows: 12 });
    text.value = JSON.stringify(RULE, null, 2);
    const said = make("div", { role: "status", "aria-label": "Effect of the rule" });
    const attempt = async (work) => {
      try {
        await work(JSON.parse(text.value));
      } catch (error) {
        said.replaceChildren(make("p", { class: "problem" }, error.message));
      }
    };
    const explain = () => attempt(async (rule) => {
      const found = await ask("/faults/rules/explain", rule);
      said.replaceChildren(make("p", {}, found.text), make("p", { class: "soft small" }, `Checked by: ${found.processes.join(", ") || "no process now"}`),
        ...found.errors.map((error) => make("p", { class: "problem" }, error.message)));
    });
    const load = () => attempt(async (rule) => {
      await ask("/faults/rules", { rules: [rule] });
      say(said, "");
      this.report(`Rule ${rule.name} is loaded.`);
    });
    return make("section", { class: "card" }, make("h3", {}, "Load a fault"),
      make("form", { onsubmit: (event) => { event.preventDefault(); explain(); } }, make("label", {}, "Rule, JSON", text), said,
        make("div", { class: "buttons" }, make("button", { type: "submit" }, "Explain"), make("button", { type: "button", class: "primary", onclick: load }, "Load"))),
      this.rules.element);
  }

  async #unload(name) {
    try {
      await ask("/faults/rules/unload", { names: [name] });
      this.report(`Rule ${name} is unloaded.`);
    } catch (error) {
      this.report(error.message, true);
    }
  }
}

const PLAN = ["Job", "Does", "Site", "Strategy", "Because", "Takes"];

function planTable(plan) {
  const rows = plan.changes.flatMap((planned) => [make("tr", {}, make("td", {}, planned.job), make("td", {}, planned.actions.join(", ")),
    make("td", {}, planned.target && planned.source !== planned.target ? `${planned.source ?? "new"} → ${planned.target}` : planned.target ?? planned.source ?? ""),
    make("td", {}, planned.strategy ?? ""), make("td", {}, planned.reason), make("td", { class: "number" }, duration(planned.predicted_s))),
  planned.fields.length > 0 && make("tr", {}, make("td", { colspan: PLAN.length }, fieldsTable(planned)))]);
  return make("div", { class: "scroll" }, make("table", {},
    make("caption", {}, `Plan for ${plan.pipeline}, version ${plan.version}: about ${duration(plan.predicted_s)}, ${bytes(plan.predicted_bytes)} of state`),
    make("thead", {}, make("tr", {}, PLAN.map((t) => make("th", { scope: "col" }, t)))), make("tbody", {}, rows)));
}

/** A table of the fields that differ, with their old and new values in full. */
function fieldsTable({ job, fields }) {
  const said = (value) => (value === null ? "–" : JSON.stringify(value));
  return make("table", { class: "fields" }, make("caption", {}, `Differences in ${job}`),
    make("thead", {}, make("tr", {}, ["Field", "Now", "Then"].map((t) => make("th", { scope: "col" }, t)))),
    make("tbody", {}, fields.map(({ field, old, new: wanted }) => make("tr", {}, make("th", { scope: "row", class: "code" }, field),
      make("td", { class: "code" }, said(old)), make("td", { class: "code" }, said(wanted))))));
}
