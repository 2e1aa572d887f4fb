/**
 * Charts over time, by uPlot: lines for values, bands for their intervals, and vertical lines for events.
 */

import uPlot from "./uPlot.esm.js";
import { make, say } from "./elements.js";
import { bandOf, intervalName } from "./intervals.js";
import { clock } from "./wording.js";

const HEIGHT = 170;
/** Up to this many samples are also shown as dots, because a single one has no line. */
const FEW = 60;
const LINES = ["--accent", "--second", "--warn", "--bad", "--line-5", "--line-6", "--good", "--line-8"];
/** As many lines as have colours that can be told apart. */
export const MOST_LINES = LINES.length;
/** Up to this many newest values stand beside the title. */
const TOLD = 3;
/** A band must not hide the lines of others; its edge shows one that is narrow, or of a single moment. */
const BAND = { fill: 0.16, edge: 0.45, width: 1.5 };
/** Room above and below the values, as uPlot leaves it. */
const ROOM = 0.1;
const MARKS = { migrate: "--accent", fault: "--bad", change: "--second" };

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** Let the browser compute custom properties: they may be `light-dark()`, which a canvas cannot paint. */
function painted(name) {
  const probe = make("span");
  probe.style.color = colour(name);
  document.body.append(probe);
  const computed = getComputedStyle(probe).color;
  probe.remove();
  return computed;
}

export class TimeChart {
  /** @param said formats a value; with an interval beside it, both */
  constructor(title, labels, said) {
    this.labels = labels;
    this.said = said;
    this.marks = [];
    this.intervals = [];
    this.bands = [];
    this.newest = make("span");
    this.place = make("div", { role: "img", "aria-label": title });
    this.bandName = make("span");
    this.key = make("p", { class: "soft small", hidden: true }, make("span", { class: "key band" }), this.bandName);
    this.element = make("section", { class: "card chart" }, make("h3", {}, title, this.newest), this.place, this.key);
    this.title = title;
    this.resizing = new ResizeObserver(() => this.plot?.setSize(this.#size()));
    this.resizing.observe(this.place);
  }

  /**
   * Columns: Unix seconds, then one list of values (or null) per label. `range`: first and last moment shown.
   * `intervals`: for each label one list of {low, high, confidence} (or null).
   */
  show(columns, marks = [], range = null, intervals = []) {
    this.marks = marks;
    this.range = range;
    this.intervals = intervals;
    this.bands = intervals.map((ofLine) => bandOf(columns[0], ofLine));
    if (!this.plot) this.#build(columns);
    else this.plot.setData(columns);
    const last = columns.slice(1).map((values, line) => {
      const at = values.findLastIndex((value) => value !== null);
      return this.said(values[at] ?? null, intervals[line]?.[at]);
    });
    const text = last.length > TOLD ? `${last.length} lines` : last.join(" / ");
    say(this.newest, text);
    this.#name(text, intervalName(intervals.flat()));
  }

  #name(text, band) {
    this.key.hidden = !band;
    say(this.bandName, band);
    this.place.setAttribute("aria-label", `${this.title}: now ${text}; ${band ? `the band is the ${band}; ` : ""}${this.marks.length} marked moments`);
  }

  /** Show other lines from the next data on. */
  relabel(labels) {
    if (labels.join("\n") === this.labels.join("\n")) return;
    this.end(true);
    this.labels = labels;
  }

  /** Free the chart. With `again`, the next data rebuild it in the colours of that time. */
  end(again = false) {
    this.plot?.destroy();
    this.plot = null;
    if (!again) this.resizing.disconnect();
  }

  #size() {
    return { width: Math.max(200, this.place.clientWidth), height: HEIGHT };
  }

  #build(columns) {
    const axis = { stroke: painted("--soft"), grid: { stroke: painted("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    this.strokes = Object.fromEntries(Object.entries(MARKS).map(([kind, name]) => [kind, painted(name)]));
    this.colours = this.labels.map((_, i) => painted(LINES[i]));
    this.plot = new uPlot({
      ...this.#size(),
      cursor: { drag: { x: false, y: false } },
      legend: { show: this.labels.length > 1, live: true },
      scales: { x: { time: true, range: (_, from, to) => this.range ?? [from, to] }, y: { range: (plot, least, most) => this.#height(plot, least, most) } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => this.said(tick)) }],
      series: [{}, ...this.labels.map((label, i) => ({ label, stroke: this.colours[i], width: 1.8, spanGaps: false,
        points: { show: (plot, series, from, to) => to - from < FEW, size: 4 }, value: (_, value, __, at) => this.said(value, this.intervals[i]?.[at]) }))],
      hooks: { drawAxes: [(plot) => this.#drawBands(plot)], draw: [(plot) => this.#drawMarks(plot)] },
    }, columns, this.place);
  }

  /** Return the least and the largest value of the axis, so that values and bands fit. */
  #height(plot, least, most) {
    if ((least ?? null) === null) return [null, null];
    const bounds = this.#shownBands(plot).flatMap(({ band }) => band.flat()).flatMap(({ low, high }) => [low, high]);
    return uPlot.rangeNum(Math.min(least, ...bounds), Math.max(most, ...bounds), ROOM, true);
  }

  /** Return the bands of the lines that the legend has not switched off. */
  #shownBands(plot) {
    return this.bands.map((band, i) => ({ band, colour: this.colours[i], series: plot.series[i + 1] })).filter(({ series }) => series?.show);
  }

  #drawBands(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = BAND.width * (devicePixelRatio || 1);
    ctx.lineJoin = "round";
    for (const { band, colour } of this.#shownBands(plot)) {
      ctx.fillStyle = ctx.strokeStyle = colour;
      for (const piece of band) {
        const edge = [...piece.map(({ at, high }) => [at, high]), ...piece.toReversed().map(({ at, low }) => [at, low])];
        ctx.beginPath();
        for (const [at, value] of edge) ctx.lineTo(plot.valToPos(at, "x", true), plot.valToPos(value, "y", true));
        ctx.closePath();
        ctx.globalAlpha = BAND.fill;
        ctx.fill();
        ctx.globalAlpha = BAND.edge;
        ctx.stroke();
      }
    }
    ctx.restore();
  }

  #drawMarks(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.font = `${10 * ratio}px system-ui`;
    for (const { at, label, kind } of this.marks) {
      const x = plot.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = this.strokes[kind];
      ctx.fillStyle = this.strokes[kind];
      ctx.setLineDash([4 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(label, x + 3 * ratio, bbox.top + 10 * ratio);
    }
    ctx.restore();
  }
}

/** Return the events that are drawn as vertical lines: [{at, label, kind}]. */
export function marksOf(events, job) {
  return events.flatMap(({ subject, body }) => {
    const [kind, , what] = subject.split(".").slice(3);
    const at = Date.parse(body.at) / 1000;
    if (kind === "fault") return [{ at, label: `${body.rule} ${what}`, kind: "fault" }];
    if (body.job !== job) return [];
    if (kind === "operation" && what === "begun") {
      return [{ at, label: body.target ? `→ ${body.target}` : body.kind, kind: body.kind === "migrate" ? "migrate" : "change" }];
    }
    if (kind === "operation" && what === "ended") return [{ at, label: body.state === "completed" ? "" : body.state, kind: body.kind === "migrate" ? "migrate" : "change" }];
    if (kind === "job" && ["failed", "retrying"].includes(body.state)) return [{ at, label: body.state, kind: "fault" }];
    return [];
  });
}
