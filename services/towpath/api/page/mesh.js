/**
 * The view of the mesh: the picture, the migrations under way, and tables of jobs, uplinks and plans; with the
 * autopilot, and places for jobs.
 */

import { AutopilotPart } from "./autopilot.js";
import { KeyedTable, make, say } from "./elements.js";
import { courseOf, fractionOf } from "./courses.js";
import { MeshPicture } from "./picture.js";
import { PlacesPart } from "./places.js";
import { PlansPart } from "./plans.js";
import { signOf, wishesOf } from "./wishes.js";
import { bytes, duration, number, rate, seconds, sentence, standbyText, tone } from "./wording.js";

/** Time for which an ended migration is still shown. */
const LINGER_S = 45;

export class MeshView {
  constructor({ model, migrate, report }) {
    this.model = model;
    this.picture = new MeshPicture("Sites, links and jobs. Drag a job to another site to move it, or press m on it.",
      (job, site) => migrate(job, site));
    this.moves = make("div", { class: "moves", "aria-live": "polite" });
    this.movesCard = make("section", { class: "card", "aria-label": "Migrations" }, make("h2", {}, "On the move"), this.moves);
    this.happenings = make("ol", { class: "happenings" });
    this.table = new KeyedTable("Jobs", [["Job", ""], ["Site", ""], ["State", ""], ["Events", "number"], ["Results", "number"],
      ["Backlog", "number"], ["Latency, p95", "number"], ["", ""]], "No jobs yet: deploy one with `towpath deploy`, or apply a pipeline under Actions.");
    this.uplinks = new KeyedTable("Uplinks", [["Uplink", ""], ["Site", ""], ["State", ""], ["Backlog", "number"], ["Rate", "number"],
      ["Through in", "number"], ["Discarded", "number"], ["This month", "number"]], "");
    this.uplinksCard = make("section", { class: "card" }, this.uplinks.element);
    this.plans = new PlansPart(model);
    this.autopilot = new AutopilotPart(model, report);
    this.places = new PlacesPart(migrate, () => this.#draw());
    this.migrate = migrate;
    this.element = [make("section", { class: "card", "aria-label": "Picture of the mesh" }, this.picture.element),
      this.movesCard, make("section", { class: "card" }, this.table.element), this.autopilot.element, this.places.element,
      this.uplinksCard, this.plans.element, make("section", { class: "card" }, make("h2", {}, "What happened"), this.happenings)];
    this.shownMoves = new Map();
  }

  show(sections = null) {
    this.#draw();
    this.#moves();
    this.table.show(this.#rows());
    const uplinks = uplinkRows(this.model);
    this.uplinks.show(uplinks);
    this.uplinksCard.hidden = uplinks.length === 0;
    this.plans.show(sections);
    this.autopilot.show(sections);
    if (!sections || sections.has("events")) this.#events();
  }

  /** Stop all work in the background. */
  end() {
    this.plans.end();
    this.places.end();
  }

  #draw() {
    this.picture.show(viewOf(this.model, this.places.proposal));
  }

  #rows() {
    return this.model.order.map((name) => {
      const job = this.model.jobs.get(name);
      const standby = this.model.standbys.get(name);
      const latency = this.model.ofJob(name, "job.latency.end_to_end.p95");
      return [name, [() => make("a", { href: `#job/${name}` }, name), job.site,
        `${job.state ?? "unknown"}${standby ? `, standby ${standbyText(standby)}` : ""}`,
        rate(this.model.eventRate(name)), rate(this.model.ofJob(name, "job.result_rate")),
        number(this.model.ofJob(name, "job.backlog")), duration(latency),
        () => make("button", { type: "button", class: "slim", "aria-label": `Migrate ${name}`,
          onclick: () => this.migrate(name, null) }, "Migrate …")]];
    });
  }

  #moves() {
    const shown = [...this.model.operations.values()].filter((view) => view.kind === "migrate"
      && (!view.ended_at || this.model.at - seconds(view.ended_at) < LINGER_S));
    this.movesCard.hidden = shown.length === 0;
    const wanted = new Set(shown.map((view) => view.operation));
    for (const [key, node] of this.shownMoves) if (!wanted.has(key)) { node.remove(); this.shownMoves.delete(key); }
    for (const view of shown) {
      if (!this.shownMoves.has(view.operation)) this.#addMove(view);
      this.#fill(this.shownMoves.get(view.operation), view);
    }
  }

  #addMove(view) {
    const node = make("div", { class: "move" }, make("p", {},
      make("a", { href: `#migrations/${view.operation}` }, `${view.job}: ${view.source} → ${view.target}`),
      make("span", { class: "soft" })), make("ol", { class: "steps" }));
    this.shownMoves.set(view.operation, node);
    this.moves.prepend(node);
  }

  #fill(node, view) {
    const [title, steps] = node.children;
    const figures = view.figures ? `, ${duration(view.figures.total_s)}, ${bytes(view.figures.state_bytes)} of state` : "";
    say(title.lastChild, ` ${view.strategy}, ${view.state.replace("_", " ")}${figures}`);
    node.dataset.tone = view.ended_at ? tone(view.state) : "accent";
    const course = courseOf(view.strategy, this.model.stepsOf(view.operation), !view.ended_at);
    course.forEach(({ step, phase }, i) => {
      if (!steps.children[i]) steps.append(make("li"));
      say(steps.children[i], step);
      steps.children[i].dataset.phase = phase;
    });
    while (steps.children.length > course.length) steps.lastChild.remove();
  }

  #events() {
    const newest = this.model.events.slice(-40).reverse();
    this.happenings.replaceChildren(...newest.map(({ subject, body }) => make("li", {},
      make("time", { datetime: body.at }, new Date(body.at).toLocaleTimeString("en-GB")), make("span", {}, sentence(subject, body)))));
    if (!newest.length) this.happenings.append(make("li", { class: "soft" }, "Nothing since this page was opened."));
  }
}

/** What an uplink waits for, by the value of its metric. */
const WAITS = ["", "waits for a window", "budget spent", "no link"];

/** Return a row for each uplink that its site has measured just now. */
function uplinkRows(model) {
  const found = new Map();
  for (const [key, [at, value]] of model.values) {
    const [site, entity, metric] = key.split("/");
    if (!entity.startsWith("uplink:") || !model.isFresh(at)) continue;
    const figures = found.get(entity) ?? { site };
    figures[metric.slice("uplink.".length)] = value;
    found.set(entity, figures);
  }
  return [...found].sort().map(([entity, { site, ...figures }]) => [entity, [entity.slice("uplink:".length), site,
    WAITS[figures.waits] || (figures.backlog ? "sending" : "all is forwarded"), number(figures.backlog),
    `${bytes(figures.rate)}/s`, figures.backlog ? duration(figures.through) : "–", number(figures.discarded),
    bytes(figures["spent.month"])]]);
}

/** Return the picture's view of the present mesh, with the moves that a proposal of places wants. */
export function viewOf(model, proposal = null) {
  const moving = new Map(model.moves().map((move) => [move.view.job, move]));
  const sites = [...model.sites.keys()].sort();
  const jobs = model.order.map((name) => jobOf(model, name, moving.get(name)));
  const flows = model.flows.map((flow) => {
    const speed = flow.from ? model.ofJob(flow.from, "job.result_rate") ?? model.eventRate(flow.to) : model.eventRate(flow.to);
    return { ...flow, flowing: speed > 0, label: crossing(model, flow) && speed > 0 ? rate(speed) : "" };
  });
  const wishes = wishesOf(model, proposal).filter(({ job }) => !moving.has(job));
  return { sites: sites.map((name) => siteOf(model, name)), links: sites.map((name) => linkOf(model, name)), jobs, flows, wishes };
}

const crossing = (model, { from, port, to }) => (port ?? model.jobs.get(from)?.site) !== model.jobs.get(to)?.site;

function siteOf(model, name) {
  const site = model.sites.get(name);
  const memory = site.processes.reduce((sum, process) => sum + process.memory_mb, 0);
  const cores = [...model.values].filter(([key]) => key.startsWith(`${name}/process:`) && key.endsWith("/process.cpu.utilization"))
    .reduce((sum, [, value]) => sum + value[1], 0);
  const used = `${bytes(memory * 1e6)}${cores ? `, ${number(cores)} cores` : ""}`;
  const state = site.state === "up" ? "" : site.state;
  const note = [state, site.error].filter(Boolean).join(": ").slice(0, 60) || used;
  return { name, tone: state || !site.error ? tone(site.state) : "warn", note, sign: signOf(model, name) };
}

function linkOf(model, site) {
  const trip = model.values.get(`${site}/link:hub/link.round_trip`) ?? model.values.get(`hub/link:${site}/link.round_trip`);
  const down = model.sites.get(site).state === "down";
  return { site, tone: down ? "bad" : "good", note: down ? "no heartbeat" : trip ? `${duration(trip[1])} round trip` : "" };
}

function jobOf(model, name, move) {
  const job = model.jobs.get(name);
  const speed = model.eventRate(name);
  const fraction = move ? fractionOf(move.view.strategy, move.steps) : 0;
  // The registry names the new owner before the last steps are done. The job has arrived then.
  const arrived = move && job.site === move.view.target;
  return { name, site: job.site, tone: tone(job.state), speed: speed === null ? "" : rate(speed),
    title: `${name} at ${job.site}, ${job.state ?? "unknown"}${speed ? `, ${rate(speed)} events` : ""}${move ? `, moving to ${move.view.target}` : ""}`,
    move: move && !arrived ? { target: move.view.target, fraction } : null };
}
