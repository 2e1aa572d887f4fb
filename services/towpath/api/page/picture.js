/**
 * The mesh as a picture. It gets a view and updates only what differs. Jobs can be dragged to sites.
 *
 * A view is {sites: [{name, tone, note, sign: {title, open} | null}], links: [{site, tone, note}],
 * jobs: [{name, site, tone, speed, title, move: {target, fraction} | null}],
 * flows: [{from: job or null, port: site or null, to: job, flowing, label}],
 * wishes: [{job, target, title}]}; those of the past have no signs and no wishes.
 */

import { draw, mark, say } from "./elements.js";
import { BERTH, flowPath, layout, linkPath, portOf, wishPath } from "./mesh_layout.js";
import { makeDraggable } from "./picture_dragging.js";

/** Beyond this number, dashes stand still: moving them all would cost a small machine its frames. */
const MOVING_DASHES = 40;
/** Most labels. More would overlap. */
const LABELS = 24;
const LETTERS = 19;
/** A small mesh is not enlarged beyond this, because its letters would be too large. */
const LARGEST = 1.25;

const shortened = (name) => (name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name);

export class MeshPicture {
  /** @param asked called with (job, site) when a job was dragged to another site, or (job, null) by the key m */
  constructor(label, asked = null) {
    this.asked = asked;
    this.layers = Object.fromEntries(["links", "hub", "sites", "berths", "flows", "wishes", "jobs", "labels"]
      .map((name) => [name, draw("g", { class: `layer-${name}` })]));
    this.element = draw("svg", { class: "picture", role: "group", "aria-label": label }, arrowHead(), Object.values(this.layers));
    this.nodes = new Map();
    this.shape = "";
    if (asked) makeDraggable(this);
  }

  /** Show a view. */
  show(view) {
    const berths = berthsOf(view);
    const shape = JSON.stringify([view.sites.map((site) => site.name), [...berths]]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.placed = layout(view.sites.map((site) => site.name), berths);
      mark(this.element, "viewBox", `0 0 ${Math.round(this.placed.width)} ${Math.round(this.placed.height)}`);
      this.element.style.maxWidth = `${Math.round(this.placed.width * LARGEST)}px`;
    }
    this.seen = new Set();
    this.#hub();
    for (const site of view.sites) this.#site(site);
    for (const link of view.links) this.#link(link);
    for (const job of view.jobs) this.#job(job);
    this.#flows(view);
    for (const wish of view.wishes ?? []) this.#wish(wish, view.jobs.find((job) => job.name === wish.job).site);
    for (const [key, node] of this.nodes) if (!this.seen.has(key)) { node.remove(); this.nodes.delete(key); }
  }

  #node(key, layer, build) {
    this.seen.add(key);
    let node = this.nodes.get(key);
    if (!node) {
      node = build();
      this.nodes.set(key, node);
      this.layers[layer].append(node);
    }
    return node;
  }

  #hub() {
    const { x, y, width, height } = this.placed.hub;
    const node = this.#node("hub", "hub", () => draw("g", { class: "hub" },
      draw("rect", { width, height, rx: 16 }), draw("text", { x: width / 2, y: 20, "text-anchor": "middle" }, "hub")));
    mark(node, "transform", `translate(${x} ${y})`);
  }

  #site({ name, tone, note, sign }) {
    const box = this.placed.sites.get(name);
    const node = this.#node(`site ${name}`, "sites", () => draw("g", { class: "site", "data-site": name },
      draw("rect", { rx: 12 }), draw("text", { class: "name", x: 18, y: 24 }, name), draw("text", { class: "note", x: 18, y: 40 })));
    mark(node, "transform", `translate(${box.x} ${box.y})`);
    mark(node, "data-tone", tone);
    mark(node.firstChild, "width", box.width);
    mark(node.firstChild, "height", box.height);
    say(node.lastChild, note);
    if (sign) this.#sign(name, sign, { x: box.x + box.width - 22, y: box.y + 22 });
  }

  #sign(site, { title, open }, { x, y }) {
    const node = this.#node(`sign ${site}`, "labels", () => draw("g", { class: "sign", role: "img", "data-sign": site },
      draw("title"), draw("circle", { r: 9 }), draw("path", { d: "M0 -5V0L4 2" })));
    mark(node, "transform", `translate(${x} ${y})`);
    mark(node, "data-open", open);
    say(node.firstChild, title);
  }

  #link({ site, tone, note }) {
    const { path, note: at } = linkPath(this.placed.sites.get(site), this.placed.hub);
    const line = this.#node(`link ${site}`, "links", () => draw("path", { class: "link" }));
    mark(line, "d", path);
    mark(line, "data-tone", tone);
    const text = this.#node(`link-note ${site}`, "labels", () => draw("text", { class: "link-note" }));
    mark(text, "x", at.x);
    mark(text, "y", at.y);
    say(text, note);
  }

  #job({ name, site, tone, speed, title, move }) {
    const home = this.placed.berths.get(`${site}/${name}`);
    if (!home) return;
    const node = this.#node(`job ${name}`, "jobs", () => draw("a", { class: "job", href: `#job/${name}`, "data-job": name },
      draw("title"), draw("rect", { width: BERTH.width, height: BERTH.height, rx: 8 }), draw("circle", { cx: 15, cy: 16, r: 4.5 }),
      draw("text", { x: 27, y: 20.5 }, shortened(name)), draw("text", { class: "speed", x: BERTH.width - 10, y: 20.5 })));
    const target = move && this.placed.berths.get(`${move.target}/+${name}`);
    const share = target ? move.fraction : 0;
    const at = target ? { x: home.x + (target.x - home.x) * share, y: home.y + (target.y - home.y) * share } : home;
    const transform = `translate(${at.x}px, ${at.y}px)`;
    if (node.style.transform !== transform && node !== this.dragged) node.style.transform = transform;
    mark(node, "data-tone", tone);
    node.classList.toggle("moving", Boolean(move));
    say(node.firstChild, title);
    mark(node, "aria-label", title);
    say(node.lastChild, speed);
    if (target) this.#course(name, home, target);
  }

  #course(name, home, target) {
    for (const [place, box] of [["from", home], ["to", target]]) {
      const berth = this.#node(`berth ${name} ${place}`, "berths", () => draw("rect",
        { class: "berth", width: BERTH.width, height: BERTH.height, rx: 8 }));
      mark(berth, "x", box.x);
      mark(berth, "y", box.y);
    }
    mark(this.#node(`course ${name}`, "berths", () => draw("path", { class: "course" })), "d", flowPath(home, target).path);
  }

  #wish({ job, target, title }, site) {
    const [from, to] = [this.placed.berths.get(`${site}/${job}`), this.placed.sites.get(target)];
    if (!from || !to) return;
    const node = this.#node(`wish ${job} ${target}`, "wishes", () => draw("g", { class: "wish", role: "img", "data-wish": job },
      draw("title"), draw("path", { class: "reach" }), draw("path", { "marker-end": "url(#wish-head)" })));
    for (const line of node.querySelectorAll("path")) mark(line, "d", wishPath(from, to));
    say(node.firstChild, title);
  }

  #flows(view) {
    const sites = new Map(view.jobs.map((job) => [job.name, job.site]));
    const moving = view.flows.filter((flow) => flow.flowing).length;
    this.element.classList.toggle("busy", moving > MOVING_DASHES);
    for (const flow of view.flows) {
      const to = this.placed.berths.get(`${sites.get(flow.to)}/${flow.to}`);
      const from = flow.port ? this.#port(flow.port) : this.placed.berths.get(`${sites.get(flow.from)}/${flow.from}`);
      if (!to || !from) continue;
      const key = `${flow.port ?? flow.from} ${flow.to}`;
      const { path, middle } = flowPath(from, to, Boolean(flow.port) && flow.port === sites.get(flow.to));
      const node = this.#node(`flow ${key}`, "flows", () => draw("path", {}));
      mark(node, "d", path);
      mark(node, "class", flow.flowing ? "flow flowing" : "flow");
      if (!flow.label || view.flows.length > LABELS) continue;
      const label = this.#node(`rate ${key}`, "labels", () => draw("text", { class: "rate" }));
      mark(label, "x", middle.x);
      mark(label, "y", middle.y);
      say(label, flow.label);
    }
  }

  #port(site) {
    const box = this.placed.sites.get(site);
    if (!box) return null;
    const { x, y } = portOf(box);
    const node = this.#node(`port ${site}`, "sites", () => draw("g", { class: "port" }, draw("circle", { r: 4 }),
      draw("text", { x: 9, y: 4 }, "devices")));
    mark(node, "transform", `translate(${x} ${y})`);
    return { x, y };
  }
}

/** Define the head of wishes' arrows. */
const arrowHead = () => draw("defs", {}, draw("marker", { id: "wish-head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
  markerUnits: "userSpaceOnUse", orient: "auto" }, draw("path", { d: "M0 0L8 4L0 8Z" })));

function berthsOf(view) {
  const berths = new Map(view.sites.map((site) => [site.name, []]));
  for (const job of view.jobs) berths.get(job.site)?.push(job.name);
  for (const job of view.jobs) if (job.move) berths.get(job.move.target)?.push(`+${job.name}`);
  return berths;
}
