/**
 * The part of the view of the mesh that shows the autopilot: windows ahead, and decisions, which people can answer.
 */

import { change } from "./api.js";
import { KeyedTable, make, say } from "./elements.js";
import { WAITS } from "./wishes.js";
import { becauseText, clock, dated, duration, LACKS, movesText, number, seconds, windowText } from "./wording.js";

const MODES = {
  off: "It is off: jobs move when people move them. `towpath up --autopilot propose` switches it on.",
  propose: "It asks people before it moves jobs.",
  act: "It moves jobs, and tells.",
};
/** Decisions that are shown at most: as many as `/live` sends. */
const LISTED = 20;
/** Begin and end that the form suggests, in seconds from now. */
const SUGGESTED_S = [600, 900];
/** Sections of the model that this part shows. */
const SECTIONS = ["autopilot", "windows", "decisions", "sites", "unanswered"];

/** Return a moment as fields of the type `datetime-local` have it. */
const local = (at) => new Date(1000 * (at - 60 * new Date(1000 * at).getTimezoneOffset())).toISOString().slice(0, 19);

export class AutopilotPart {
  constructor(model, report) {
    Object.assign(this, { model, report });
    this.mode = make("p", {});
    this.trouble = make("p", { class: "problem" });
    this.windows = new KeyedTable("Windows ahead", [["Site", ""], ["Announced", ""], ["Begins", ""], ["Ends", ""], ["Note", ""], ["", ""]],
      "None is announced.");
    this.decisions = new KeyedTable("Decisions", [["Decided", ""], ["State", ""], ["Moves", ""], ["Because", ""], ["Late if they stay", "number"],
      ["Expected", "number"], ["Measured", "number"], ["Longest gap", "number"], ["", ""]], "It has not decided anything yet.");
    this.known = make("div", { class: "stack" }, this.windows.element, this.#form(), this.decisions.element);
    this.element = make("section", { class: "card stack", "aria-label": "Autopilot" }, make("h2", {}, "Autopilot"),
      make("div", {}, this.mode, this.trouble), this.known);
  }

  show(sections) {
    if (sections && !SECTIONS.some((name) => sections.has(name))) return;
    const pilot = this.model.autopilot.get("hub");
    const on = Boolean(pilot) && pilot.mode !== "off";
    const away = this.model.unanswered.get("autopilot");
    say(this.mode, pilot ? `${MODES[pilot.mode]}${on ? ` ${goalText(pilot)}` : ""}` : "It has not answered yet.");
    say(this.trouble, away ? `It does not answer: ${away}` : pilot?.trouble ? `Its last look failed: ${pilot.trouble}` : "");
    this.trouble.hidden = !this.trouble.textContent;
    this.known.hidden = !on;
    this.#sites();
    this.windows.show(this.#windowRows());
    this.decisions.show(this.#decisionRows());
  }

  #windowRows() {
    return [...this.model.windows.values()].sort((one, other) => seconds(one.begins) - seconds(other.begins))
      .map(({ window, site, cause, begins, ends, note }) => [window, [site, LACKS[cause], dated(begins), dated(ends), note,
        () => this.#button("Withdraw", `the window of ${site}`, "DELETE", `/autopilot/windows/${window}`)]]);
  }

  #decisionRows() {
    const newest = [...this.model.decisions.values()].sort((one, other) => seconds(other.decided) - seconds(one.decided));
    return newest.slice(0, LISTED).map((one) => {
      const waits = WAITS.has(one.state);
      // A row has buttons or not for as long as it lives.
      return [`${one.decision} ${waits}`, [dated(one.decided), one.state, movesText(one), becauseText(one), duration(one.staying.late_s),
        duration(one.moving.late_s), duration(one.outcome?.late_s), duration(one.outcome?.downtime_s), waits ? () => this.#answers(one) : ""]];
    });
  }

  #answers(one) {
    return make("div", { class: "row" }, ["Approve", "Refuse"].map((answer) =>
      this.#button(answer, movesText(one), "POST", `/autopilot/decisions/${one.decision}/${answer.toLowerCase()}`)));
  }

  /** Make a button for one request. The feed shows what it changed. */
  #button(label, object, method, path) {
    const button = make("button", { type: "button", class: "slim", "aria-label": `${label} ${object}`, onclick: async () => {
      button.disabled = true;
      await this.#attempt(() => change(method, path));
      button.disabled = false;
    } }, label);
    return button;
  }

  async #attempt(work) {
    try {
      await work();
    } catch (error) {
      this.report(error.message, true);
    }
  }

  #form() {
    const time = () => make("input", { type: "datetime-local", step: 1, required: true });
    [this.begins, this.ends] = [time(), time()];
    this.site = make("select", { required: true });
    this.cause = make("select", {}, Object.entries(LACKS).map(([value, label]) => make("option", { value }, label)));
    this.note = make("input", { maxlength: 200, autocomplete: "off", placeholder: "none" });
    return make("details", { ontoggle: () => this.#suggest() }, make("summary", {}, "Announce a window"),
      make("form", { class: "row asked", onsubmit: (event) => { event.preventDefault(); this.#announce(); } },
        make("label", {}, "Site", this.site), make("label", {}, "It will be", this.cause), make("label", {}, "Begins", this.begins),
        make("label", {}, "Ends", this.ends), make("label", {}, "Note", this.note), make("button", { type: "submit", class: "primary" }, "Announce")));
  }

  #suggest() {
    [this.begins, this.ends].forEach((field, i) => { field.value = local(Date.now() / 1000 + SUGGESTED_S[i]); });
  }

  #announce() {
    const moment = (field) => new Date(field.value).toISOString();
    return this.#attempt(async () => {
      const window = await change("POST", "/autopilot/windows", { site: this.site.value, cause: this.cause.value,
        begins: moment(this.begins), ends: moment(this.ends), note: this.note.value });
      this.report(`Announced: ${window.site}, ${windowText(window)}.`);
      this.note.value = "";
      this.#suggest();
    });
  }

  #sites() {
    const names = [...this.model.sites.keys()].sort();
    if (names.join() === this.listed) return;
    this.listed = names.join();
    this.site.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  }
}

const goalText = ({ policy, latency_s: goal_s, horizon_s: ahead_s, looked }) =>
  `Goal: results within ${number(goal_s)} s. It looks ${duration(ahead_s)} ahead, and places jobs by ${policy}. Last look: ${looked ? clock(looked) : "none yet"}.`;
