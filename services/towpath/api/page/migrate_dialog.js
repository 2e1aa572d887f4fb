/**
 * The dialog that moves a job. It shows the expected cost before anything happens.
 */

import { ask, change } from "./api.js";
import { STRATEGIES } from "./courses.js";
import { make, say } from "./elements.js";
import { bytes, duration } from "./wording.js";

const MEANINGS = {
  auto: "auto: whichever suits the job", handover: "handover: state travels while the job runs",
  general: "general: pause, carry the state, resume", parallel: "parallel: both run until they agree",
  restart: "restart: state is thrown away", twin: "twin: both publish, until you end it",
};

export class MigrateDialog {
  constructor(dialog, model, report) {
    Object.assign(this, { dialog, model, report });
    this.job = make("select", { required: true, onchange: () => this.#jobChosen() });
    this.target = make("select", { required: true, onchange: () => this.#predict() });
    this.strategy = make("select", { onchange: () => this.#predict() },
      STRATEGIES.map((name) => make("option", { value: name }, MEANINGS[name])));
    this.prediction = make("div", { class: "prediction", role: "status", "aria-label": "Prediction" });
    this.confirm = make("button", { type: "submit", class: "primary" }, "Migrate");
    dialog.replaceChildren(make("form", { method: "dialog", onsubmit: (event) => this.#submit(event) },
      make("h2", { id: "migrate-title" }, "Migrate a job"),
      make("label", {}, "Job", this.job), make("label", {}, "To site", this.target), make("label", {}, "Strategy", this.strategy),
      this.prediction,
      make("div", { class: "buttons" }, make("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), this.confirm)));
  }

  /** Open it for a job (default: the first) and a site (default: another than the job's). */
  open(job = null, site = null) {
    const names = [...this.model.jobs.keys()].sort();
    if (!names.length) { this.report("There is no job to migrate.", true); return; }
    if (job && site === this.model.jobs.get(job)?.site) return;
    this.job.replaceChildren(...names.map((name) => make("option", { value: name, selected: name === job }, name)));
    this.strategy.value = "auto";
    this.dialog.showModal();
    this.#jobChosen(site);
  }

  #jobChosen(site = null) {
    const at = this.model.jobs.get(this.job.value)?.site;
    const others = [...this.model.sites.keys()].filter((name) => name !== at).sort();
    this.target.replaceChildren(...others.map((name) => make("option", { value: name, selected: name === site }, name)));
    this.#predict();
  }

  async #predict() {
    this.aborting?.abort();
    const aborting = new AbortController();
    this.aborting = aborting;
    this.confirm.disabled = true;
    this.prediction.classList.remove("problem");
    say(this.prediction, "Asking for the expected cost …");
    try {
      const forecast = await ask(`/jobs/${this.job.value}/migrations?dry_run=true`,
        { to: this.target.value, strategy: this.strategy.value }, { signal: aborting.signal });
      if (aborting.signal.aborted) return;
      this.prediction.replaceChildren(make("strong", {}, `${forecast.strategy}: about ${duration(forecast.total_s)}, ${bytes(forecast.state_bytes)} of state`),
        make("p", {}, forecast.reason), make("p", { class: "soft small" }, `Based on ${forecast.basis}.`));
      this.confirm.disabled = false;
    } catch (error) {
      if (aborting.signal.aborted) return;
      this.prediction.classList.add("problem");
      say(this.prediction, error.message);
    }
  }

  async #submit(event) {
    event.preventDefault();
    if (this.confirm.disabled) return;
    this.confirm.disabled = true;
    const [job, to] = [this.job.value, this.target.value];
    try {
      await change("POST", `/jobs/${job}/migrations`, { to, strategy: this.strategy.value });
      this.dialog.close();
      this.report(`${job} moves to ${to}.`);
      location.hash = "#mesh";
    } catch (error) {
      this.prediction.classList.add("problem");
      say(this.prediction, error.message);
      this.confirm.disabled = false;
    }
  }
}
