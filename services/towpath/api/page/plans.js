/**
 * The part of the view of the mesh that shows deployment plans: each with its progress, and what its devices
 * must have and report.
 */

import { look } from "./api.js";
import { KeyedTable, make, mark } from "./elements.js";
import { dated } from "./wording.js";

/** Time between two looks while a version is rolled out: events tell of its waves, and not of each device. */
const LOOK_MS = 2000;
/** Devices that are listed at most. Those that may need someone come first. */
const LISTED = 200;
const STATES = ["failed", "deferred", "queued-offline", "installing", "pending", "running", "removed"];

export class PlansPart {
  constructor(model) {
    this.model = model;
    this.plans = new KeyedTable("Plans", [["Plan", ""], ["Version", "number"], ["State", ""], ["Wave", ""], ["Devices", ""], ["Note", ""]], "");
    this.devices = new KeyedTable("Devices of plans", [["Device", ""], ["Plan", ""], ["Desired", ""], ["Reported", ""], ["State", ""],
      ["Reason", ""]], "");
    this.more = make("p", { class: "soft small" });
    const scrolled = make("div", { class: "results", tabindex: "0", role: "region", "aria-label": "Devices of plans" }, this.devices.element);
    this.element = make("section", { class: "card plans", hidden: true }, this.plans.element, scrolled, this.more);
    this.told = 0;
    this.aborting = new AbortController();
  }

  /** Look at the plans again if an event told of one, or if the page may have missed some. */
  show(sections) {
    const told = this.model.events.findLast(({ subject }) => subject.split(".")[3] === "plan")?.serial ?? 0;
    // Each snapshot has all sections, also that of services without an answer.
    if (sections && !sections.has("unanswered") && told === this.told) return;
    this.told = told;
    this.stale = true;
    if (!this.reading) this.#read();
  }

  /** Stop all work in the background. */
  end() {
    this.aborting.abort();
    clearTimeout(this.timer);
  }

  async #read() {
    clearTimeout(this.timer);
    this.reading = true;
    const { signal } = this.aborting;
    try {
      while (this.stale) {
        this.stale = false;
        const { plans } = await look("/plans", { signal });
        this.#fill(await Promise.all(plans.map(({ plan }) => look(`/plans/${plan}`, { signal }))));
      }
    } catch {
      // What was shown stays: the header says if the mesh does not answer.
    }
    this.reading = false;
    if (!signal.aborted && this.rolling) this.timer = setTimeout(() => { this.stale = true; this.#read(); }, LOOK_MS);
  }

  #fill(views) {
    this.rolling = views.some((view) => view.state === "running");
    this.element.hidden = views.length === 0;
    this.plans.show(views.map((view) => [view.plan, [view.plan, view.version, stateOf(view), `${view.wave} of ${view.waves}`,
      STATES.filter((state) => view.counts[state]).map((state) => `${view.counts[state]} ${state}`).join(", "), view.note]]));
    const rows = views.flatMap((view) => view.devices.map((device) => ({ view, device })))
      .sort((one, other) => STATES.indexOf(one.device.state) - STATES.indexOf(other.device.state));
    this.devices.show(rows.slice(0, LISTED).map(({ view, device }) => [`${view.plan}/${device.device}`, [device.device, view.plan,
      had(device.wanted, view.version), had(device.applications, device.version), device.state, reasonOf(device)]]));
    this.more.textContent = rows.length > LISTED ? `${rows.length - LISTED} more; \`towpath plan status\` shows them` : "";
    mark(this.more, "hidden", rows.length > LISTED ? null : "");
  }
}

const stateOf = (view) => (view.kind === "automatic-rollback" ? `${view.state}, went back to version ${view.again ?? 0}` : view.state);

/** Name applications, and the version that a device has of them: nothing is said of a version that it has in part. */
function had(applications, version) {
  const names = Object.keys(applications).join(", ") || "nothing";
  return version === null ? names : `${names}, version ${version}`;
}

const reasonOf = ({ note, since }) => (since ? `since ${dated(since)}: ${note}` : note);
