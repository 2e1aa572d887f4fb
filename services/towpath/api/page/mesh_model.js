/**
 * The page's model of the mesh. Changes replace entries by key. Listeners get the names of changed sections.
 */

import { look } from "./api.js";
import { flowsOf, inFlowOrder } from "./flows.js";
import { seconds } from "./wording.js";

const SECTIONS = ["sites", "jobs", "statuses", "standbys", "operations", "rules", "values", "unanswered",
  "autopilot", "windows", "decisions"];
const KEPT_EVENTS = 500;
/** Samples of a job that the page keeps by itself: some minutes, in case the collector has no history. */
const KEPT_SAMPLES = 600;
/** Age from which a value is no longer current. */
const FRESH_S = 15;

export class MeshModel {
  constructor() {
    for (const section of SECTIONS) this[section] = new Map();
    this.events = [];
    this.order = [];
    this.flows = [];
    this.steps = new Map();
    this.samples = new Map();
    this.at = Date.now() / 1000;
    this.listeners = new Set();
    this.changed = new Set();
  }

  /** Call `listener(sections)` at most once a frame, when something changed. Return a function that stops it. */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Apply a message of `/live`. */
  take(kind, content) {
    if (kind === "happened") this.#happened(content);
    else {
      if (kind === "snapshot") for (const section of SECTIONS) this[section].clear();
      this.at = seconds(content.at);
      for (const section of SECTIONS) this.#takeSection(section, content[section] ?? {}, kind === "snapshot");
      if (this.changed.has("jobs")) [this.order, this.flows] = [inFlowOrder(this.jobs), flowsOf(this.jobs)];
      if (content.values || content.statuses) this.#sample();
    }
    this.#tell();
  }

  /** Tell if a value measured at a time is current. */
  isFresh(at) {
    return this.at - at < FRESH_S;
  }

  /** Return the newest value of a job's metric at its site. Null if there is none, or only an old one. */
  ofJob(name, metric) {
    const job = this.jobs.get(name);
    const found = job && this.values.get(`${job.site}/job:${name}/${metric}`);
    return found && this.isFresh(found[0]) ? found[1] : null;
  }

  /** Return the events a second of a job: as measured, or as its site reported with its last batch. */
  eventRate(name) {
    const measured = this.ofJob(name, "job.event_rate");
    if (measured !== null) return measured;
    const status = this.statuses.get(name);
    if (!status?.committed_at) return null;
    return this.at - seconds(status.committed_at) < FRESH_S / 2 ? status.events_per_s : 0;
  }

  /** Return migrations under way, each with its steps so far. */
  moves() {
    return [...this.operations.values()]
      .filter((view) => view.kind === "migrate" && ["running", "rolling_back"].includes(view.state))
      .map((view) => ({ view, steps: this.stepsOf(view.operation) }));
  }

  /** Return an operation's steps in order. They are looked up once if the page missed the beginning. */
  stepsOf(operation) {
    if (!this.steps.has(operation)) {
      this.steps.set(operation, []);
      look(`/operations/${operation}`).then((view) => {
        const known = this.steps.get(operation);
        if (view.journal.length > known.length) this.steps.set(operation, view.journal);
        this.changed.add("operations");
        this.#tell();
      }).catch(() => {});
    }
    return this.steps.get(operation);
  }

  #takeSection(section, entries, whole = false) {
    const keys = Object.keys(entries);
    for (const key of keys) {
      if (entries[key] === null) this[section].delete(key);
      else this[section].set(key, entries[key]);
    }
    if (keys.length || whole) this.changed.add(section);
  }

  #happened(event) {
    this.events.push(event);
    if (this.events.length > KEPT_EVENTS) this.events.shift();
    const [kind, id, what] = event.subject.split(".").slice(3);
    if (kind === "operation" && what === "begun") this.steps.set(id, []);
    if (kind === "operation" && what === "step") this.steps.get(id)?.push(event.body);
    if (kind === "decision") this.#takeSection("decisions", { [id]: event.body.now });
    if (kind === "window") this.#takeSection("windows", { [id]: event.body.withdrawn ? null : event.body.now });
    this.changed.add("events");
  }

  #sample() {
    for (const name of this.statuses.keys()) {
      const kept = this.samples.get(name) ?? [];
      kept.push({ at: this.at, eventRate: this.eventRate(name), resultRate: this.ofJob(name, "job.result_rate"),
        backlog: this.ofJob(name, "job.backlog"), latency: this.ofJob(name, "job.latency.end_to_end.p95"),
        batch: this.statuses.get(name).batch_s, state: this.ofJob(name, "job.state.memory") });
      if (kept.length > KEPT_SAMPLES) kept.shift();
      this.samples.set(name, kept);
    }
  }

  #tell() {
    if (this.telling) return;
    this.telling = true;
    requestAnimationFrame(() => {
      const sections = this.changed;
      [this.changed, this.telling] = [new Set(), false];
      for (const listener of this.listeners) listener(sections);
    });
  }
}
