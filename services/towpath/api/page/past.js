/**
 * The mesh at a moment of the past, from recorded events and samples. Pure.
 */

import { fractionOf } from "./courses.js";
import { flowsOf, inFlowOrder } from "./flows.js";
import { rate, seconds, tone } from "./wording.js";

/** Steps for which a sample counts: the step before it, and one more. */
const STEPS = 2;
/** Kinds of events that contain the state of sites and jobs. */
const TELLING = new Set(["site", "job", "operation"]);

/** Index samples: `entity/metric` → sorted points, over all sites. */
export function indexOf(series) {
  const index = new Map();
  for (const { entity, metric, points } of series) {
    const key = `${entity}/${metric}`;
    index.set(key, [...index.get(key) ?? [], ...points].sort((a, b) => a[0] - b[0]));
  }
  return index;
}

/** Return the number of `items`, in order of time, that are not later than `at`. */
function countUntil(items, at, timeOf) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeOf(items[middle]) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return the newest value at `at`, unless it is older than some steps. */
export function valueAt(index, key, at, step) {
  const points = index.get(key) ?? [];
  const found = points[countUntil(points, at, (point) => point[0]) - 1];
  return found && at - found[0] <= STEPS * step + 5 ? found[1] : null;
}

/** Return events of the mesh in order of time: [{at, serial, subject, kind, id, what, body}]. */
export function momentsOf(events) {
  return events.map(({ serial, subject, body }) => {
    const [kind, id, what] = subject.split(".").slice(3);
    return { at: seconds(body.at), serial, subject, kind, id, what, body };
  }).sort((a, b) => a.at - b.at || a.serial - b.serial);
}

/**
 * Index the recorded events: {moments, first: job → its state before the first of them,
 * stays: site → [first, last] moment that names it, sites, today}. `jobs` and `sites` are those of today (Map
 * of name → LiveJob, names): jobs and sites that are gone are known from the events alone.
 */
export const recordOf = (moments, jobs, sites) => ({ moments, first: firstOf(moments, jobs), stays: staysOf(moments), sites: [...sites], today: jobs });

/** Return the moments until `at`, inclusive. */
export const momentsUntil = (record, at) => record.moments.slice(0, countUntil(record.moments, at, (moment) => moment.at));

/** Return jobs that are older than the record: their first event is not their begin. */
function firstOf(moments, jobs) {
  const found = new Map();
  for (const { kind, what, body } of moments) {
    const known = found.get(body.job);
    if (known && !known.output && body.output) Object.assign(known, wiringOf(body));
    if (found.has(body.job)) continue;
    if (kind === "operation" && what === "begun") found.set(body.job, body.source ? jobAt(body.source, body, jobs) : null);
    else if (kind === "operation" && isRemoved(what, body)) found.set(body.job, null);
    else if (kind === "job" && body.state !== "held") found.set(body.job, jobAt(body.site, body, jobs));
  }
  for (const [name, job] of jobs) if (!found.has(name)) found.set(name, jobAt(job.site, job, jobs));
  return new Map([...found].filter(([, job]) => job));
}

const isRemoved = (what, body) => what === "ended" && body.kind === "remove" && body.state === "completed";

const jobAt = (site, body, jobs) => ({ site, state: "running", ...wiringOf(body, jobs.get(body.job)) });

/** Return a job's inputs and output from an event, or else today's: old events do not contain them. */
function wiringOf(body, today) {
  const { inputs, output } = body.output ? body : today ?? { inputs: [], output: null };
  return { inputs, output };
}

function staysOf(moments) {
  const stays = new Map();
  for (const { at, kind, body } of moments) {
    if (!TELLING.has(kind)) continue;
    for (const site of [body.site, body.source, body.target]) {
      if (site) stays.set(site, [stays.get(site)?.[0] ?? at, at]);
    }
  }
  return stays;
}

/** Return sites (name → state), jobs (name → {site, state, inputs, output}) and migrations at `at`, after all events until then. */
export function stateAt(record, at) {
  const there = [...record.stays].filter(([, [from, to]]) => from <= at && at <= to).map(([name]) => name);
  const state = { sites: new Map([...record.sites, ...there].map((name) => [name, "up"])), moves: new Map(), before: new Map(),
    jobs: new Map([...record.first].map(([name, job]) => [name, { ...job }])) };
  for (const { at: when, kind, id, what, body } of record.moments) {
    if (when > at) break;
    if (kind === "site" && state.sites.has(body.site)) state.sites.set(body.site, body.state);
    if (kind === "job") takeJob(state, body);
    if (kind === "operation") takeOperation(state, id, what, body, record.today.get(body.job));
  }
  return state;
}

/** A site may still report a job that has moved or was removed. */
function takeJob(state, { job, site, state: how }) {
  const known = state.jobs.get(job);
  if (known?.site === site) known.state = how;
}

function takeOperation(state, id, what, body, today) {
  const known = state.jobs.get(body.job);
  if (what === "step") state.moves.get(body.job)?.steps.push(body);
  else if (what === "begun") {
    state.before.set(id, known ?? null);
    const site = body.kind === "migrate" ? body.source : body.target;
    if (site) state.jobs.set(body.job, { state: known?.state ?? "starting", site, ...wiringOf(body, today) });
    if (body.kind === "migrate") state.moves.set(body.job, { ...body, steps: [] });
  } else if (what === "ended") {
    if (body.state === "completed") complete(state, body, known);
    else if (body.state === "rolled_back") rollBack(state, body.job, state.before.get(id), known);
    if (state.moves.get(body.job)?.operation === id) state.moves.delete(body.job);
  }
}

function complete(state, body, known) {
  const move = state.moves.get(body.job);
  if (body.kind === "remove") state.jobs.delete(body.job);
  else if (body.kind === "migrate" && move && known) Object.assign(known, { site: move.target, state: "running" });
  else if (known?.state === "starting") known.state = "running";
}

/** Undo what the operation had begun to change. `before` is null for a job that was new. */
function rollBack(state, job, before, known) {
  if (before === null) state.jobs.delete(job);
  else if (before && known) Object.assign(known, { inputs: before.inputs, output: before.output });
}

/** Return the picture's view of a moment. */
export function viewAt(record, index, { at, step }) {
  const { sites, jobs, moves } = stateAt(record, at);
  const speed = (name) => valueAt(index, `job:${name}/job.event_rate`, at, step);
  return {
    sites: [...sites].sort().map(([name, how]) => ({ name, tone: tone(how), note: how })),
    links: [...sites].map(([site, how]) => ({ site, tone: how === "down" ? "bad" : "good", note: "" })),
    jobs: inFlowOrder(jobs).map((name) => {
      const move = moves.get(name);
      const arrived = move?.steps.some((step_) => step_.step === "record-owner" && step_.phase === "confirmed");
      const site = arrived ? move.target : jobs.get(name).site;
      return { name, site, tone: tone(jobs.get(name).state), speed: speed(name) === null ? "" : rate(speed(name)),
        title: `${name} at ${site}`, move: move && !arrived ? { target: move.target, fraction: fractionOf(move.strategy, move.steps) } : null };
    }),
    flows: flowsOf(jobs).map((flow) => ({ ...flow, flowing: (speed(flow.to) ?? 0) > 0, label: "" })),
  };
}
