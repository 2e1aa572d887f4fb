/**
 * The mesh as a picture. It gets a view and updates only what differs. Jobs can be dragged to sites.
 *
 * A view is {sites: [{name, tone, note}], links: [{site, tone, note}],
 * jobs: [{name, site, tone, speed, title, move: {target, fraction} | null}],
 * flows: [{from: job or null, port: site or null, to: job, flowing, label}]}.
 */

import { draw, mark, say } from "./elements.js";
import { BERTH, flowPath, layout, linkPath, portOf } from "./mesh_layout.js";

/** Beyond this number, dashes stand still: moving them all would cost a small machine its frames. */
const MOVING_DASHES = 40;
/** Most labels. More would overlap. */
const LABELS = 24;
const LETTERS = 19;
/** A small mesh is not enlarged beyond this, because its letters would be too large. */
const LARGEST = 1.25;
const DRAG_PX = 6;

const shortened = (name) => (name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name);

export class MeshPicture {
  /** @param asked called with (job, site) when a job was dragged to another site, or (job, null) by the key m */
  constructor(label, asked = null) {
    this.asked = asked;
    this.layers = Object.fromEntries(["links", "hub", "sites", "berths", "flows", "jobs", "labels"]
      .map((name) => [name, draw("g", { class: `layer-${name}` })]));
    this.element = draw("svg", { class: "picture", role: "group", "aria-label": label }, Object.values(this.layers));
    this.nodes = new Map();
    this.shape = "";
    if (asked) this.#dragging();
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

  #site({ name, tone, note }) {
    const box = this.placed.sites.get(name);
    const node = this.#node(`site ${name}`, "sites", () => draw("g", { class: "site", "data-site": name },
      draw("rect", { rx: 12 }), draw("text", { class: "name", x: 18, y: 24 }, name), draw("text", { class: "note", x: 18, y: 40 })));
    mark(node, "transform", `translate(${box.x} ${box.y})`);
    mark(node, "data-tone", tone);
    mark(node.firstChild, "width", box.width);
    mark(node.firstChild, "height", box.height);
    say(node.lastChild, note);
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

  #dragging() {
    const svg = this.element;
    let begun = null;
    const at = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const siteAt = (point) => [...this.placed.sites].find(([, box]) => point.x >= box.x && point.x <= box.x + box.width
      && point.y >= box.y && point.y <= box.y + box.height)?.[0] ?? null;
    const aim = (name) => { for (const node of this.layers.sites.children) node.classList.toggle("aimed", node.dataset.site === name); };
    const finish = () => {
      this.dragged?.classList.remove("dragged");
      [this.dragged, begun] = [null, null];
      aim(null);
    };
    svg.addEventListener("pointerdown", (event) => {
      const node = event.target.closest?.(".job");
      if (node && event.button === 0) begun = { node, from: at(event), home: node.style.transform };
    });
    svg.addEventListener("pointermove", (event) => {
      if (!begun) return;
      const point = at(event);
      if (!this.dragged && Math.hypot(point.x - begun.from.x, point.y - begun.from.y) < DRAG_PX) return;
      if (!this.dragged) svg.setPointerCapture(event.pointerId);
      this.dragged = begun.node;
      this.dragged.classList.add("dragged");
      this.dragged.style.transform = `translate(${point.x - BERTH.width / 2}px, ${point.y - BERTH.height / 2}px)`;
      aim(siteAt(point));
    });
    svg.addEventListener("pointerup", (event) => {
      const node = this.dragged;
      if (node) {
        node.style.transform = begun.home;
        const site = siteAt(at(event));
        // Letting go is not a click on the link. If a click comes, it comes before the timeout.
        const swallow = (click) => click.preventDefault();
        svg.addEventListener("click", swallow, { capture: true });
        setTimeout(() => {
          svg.removeEventListener("click", swallow, { capture: true });
          if (site) this.asked(node.dataset.job, site);
        });
      }
      finish();
    });
    svg.addEventListener("pointercancel", finish);
    svg.addEventListener("dragstart", (event) => event.preventDefault());
    svg.addEventListener("keydown", (event) => {
      const node = event.target.closest?.(".job");
      if (node && event.key === "m" && !event.ctrlKey && !event.metaKey) this.asked(node.dataset.job, null);
    });
  }
}

function berthsOf(view) {
  const berths = new Map(view.sites.map((site) => [site.name, []]));
  for (const job of view.jobs) berths.get(job.site)?.push(job.name);
  for (const job of view.jobs) if (job.move) berths.get(job.move.target)?.push(`+${job.name}`);
  return berths;
}
