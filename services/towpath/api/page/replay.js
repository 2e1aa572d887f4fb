/**
 * The view of the past: scrub through recorded events, or play them.
 */

import { make, say } from "./elements.js";
import { history } from "./history.js";
import { keptEvents } from "./live.js";
import { indexOf, momentsOf, momentsUntil, recordOf, viewAt } from "./past.js";
import { MeshPicture } from "./picture.js";
import { clock, dated, sentence } from "./wording.js";

const SPEEDS = [1, 5, 20, 100];
const SPANS = [[600, "the last 10 minutes"], [3600, "the last hour"], [86_400, "the last day"], [0, "everything kept"]];
/** Time added before and after the recorded events, so that the first and the last are seen. */
const MARGIN_S = 5;

export class ReplayView {
  constructor({ model }) {
    this.model = model;
    this.picture = new MeshPicture("The mesh at the moment chosen below");
    this.when = make("output", {}, "–");
    this.slider = make("input", { type: "range", min: 0, max: 1000, step: 1, value: 1000, "aria-label": "Moment", oninput: () => this.#scrubbed() });
    this.play = make("button", { type: "button", "aria-pressed": "false", onclick: () => this.#toggle() }, "Play");
    this.speed = make("select", { "aria-label": "Speed" }, SPEEDS.map((n) => make("option", { value: n, selected: n === 5 }, `${n}×`)));
    this.span = make("select", { "aria-label": "Time to replay", onchange: () => this.#load() }, SPANS.map(([s, label]) => make("option", { value: s }, label)));
    this.note = make("p", { class: "soft small", role: "status" });
    this.list = make("ol", { class: "happenings" });
    this.element = [make("div", { class: "row" }, make("h2", {}, "Replay"), make("span", { class: "grow" }), this.span),
      make("section", { class: "card" }, this.picture.element),
      make("section", { class: "card" }, make("div", { class: "scrubber" }, this.play, this.speed, this.slider, this.when), this.note),
      make("section", { class: "card" }, make("h3", {}, "Until then"), this.list)];
    this.#load();
  }

  /** Present events are not part of the replay. But today's jobs and sites tell about the past, too. */
  show(sections = null) {
    if (!this.moments || (sections && !sections.has("jobs") && !sections.has("sites"))) return;
    this.#remember();
    this.#draw();
  }

  end() {
    cancelAnimationFrame(this.frame);
    this.ended = true;
  }

  async #load() {
    say(this.note, "Reading recorded events …");
    try {
      const moments = momentsOf(await keptEvents());
      const until = Date.now() / 1000;
      const length = Number(this.span.value);
      const oldest = moments.length ? moments[0].at - MARGIN_S : until - 60;
      const from = length ? Math.max(until - length, oldest) : oldest;
      const series = await history(["job.event_rate"], ["job:*"], { since: from, until, points: 600 }).catch(() => []);
      [this.from, this.until] = [from, Math.max(until, from + 1)];
      this.step = Math.max(2, Math.round((this.until - this.from) / 600));
      this.index = indexOf(series);
      // Events before the span determine its first state.
      this.moments = moments;
      this.#remember();
      say(this.note, `${moments.length} events, ${series.length} series, from ${dated(this.from)} on`);
    } catch (error) {
      say(this.note, error.message);
      return;
    }
    if (!this.ended) this.#scrubbed();
  }

  #remember() {
    this.record = recordOf(this.moments, this.model.jobs, this.model.sites.keys());
  }

  #scrubbed() {
    this.at = this.from + ((this.until - this.from) * Number(this.slider.value)) / 1000;
    this.#draw();
  }

  #draw() {
    if (!this.moments) return;
    this.picture.show(viewAt(this.record, this.index, { at: this.at, step: this.step }));
    say(this.when, dated(this.at));
    this.slider.setAttribute("aria-valuetext", dated(this.at));
    const seen = momentsUntil(this.record, this.at);
    if (seen.length === this.listed) return;
    this.listed = seen.length;
    this.list.replaceChildren(...seen.slice(-25).reverse().map(({ subject, body }) => make("li", {},
      make("time", { datetime: body.at }, clock(body.at)), make("span", {}, sentence(subject, body)))));
  }

  #toggle() {
    this.playing = !this.playing;
    say(this.play, this.playing ? "Pause" : "Play");
    this.play.setAttribute("aria-pressed", String(this.playing));
    if (!this.playing || !this.moments) return;
    if (Number(this.slider.value) >= 1000) this.at = this.from;
    let before = performance.now();
    const step = (time) => {
      if (!this.playing || this.ended) return;
      this.at = Math.min(this.until, this.at + ((time - before) / 1000) * Number(this.speed.value));
      before = time;
      this.slider.value = String((1000 * (this.at - this.from)) / (this.until - this.from));
      this.#draw();
      if (this.at >= this.until) this.#toggle();
      else this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }
}
