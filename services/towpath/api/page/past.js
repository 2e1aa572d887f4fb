/**
 * How the mesh was at a moment of the past, from recorded events and samples. Pure.
 */

import { fractionOf } from "./courses.js";
import { flowsOf, inFlowOrder } from "./flows.js";
import { rate, seconds, tone } from "./wording.js";

/** Where a sample counts: a point says something of the step before it, and of one more. */
const STEPS = 2;

/** Samples, quick to look up: `entity/metric` → sorted points, over all sites. */
export function indexOf(series) {
  const index = new Map();
  for (const { entity, metric, points } of series) {
    const key = `${entity}/${metric}`;
    index.set(key, [...index.get(key) ?? [], ...points].sort((a, b) => a[0] - b[0]));
  }
  return index;
}

/** The newest value at `at`, if it is not older than some steps. */
export function valueAt(index, key, at, step) {
  const points = index.get(key) ?? [];
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= at) low = middle + 1;
    else high = middle;
  }
  const found = points[low - 1];
  return found && at - found[0] <= STEPS * step + 5 ? found[1] : null;
}

/** Sites, places of jobs and migrations at `at`, after all events until then. `jobs`: what they are (LiveJob). */
export function stateAt(events, jobs, sites, at) {
  const state = { sites: new Map([...sites].map((name) => [name, "up"])), places: new Map(), states: new Map(), moves: new Map() };
  for (const { subject, body } of events) {
    if (seconds(body.at) > at) break;
    const [kind, id, what] = subject.split(".").slice(3);
    if (kind === "site") state.sites.set(body.site, body.state);
    if (kind === "job") takeJob(state, body);
    if (kind === "operation") takeOperation(state, id, what, body);
  }
  return state;
}

function takeJob(state, { job, site, state: how }) {
  if (!state.places.has(job) && how !== "held") state.places.set(job, site);
  if (state.places.get(job) === site) state.states.set(job, how);
}

function takeOperation(state, id, what, body) {
  if (what === "begun" && body.kind === "migrate") {
    state.moves.set(body.job, { ...body, steps: [] });
    state.places.set(body.job, body.source);
  } else if (what === "begun" && body.target) state.places.set(body.job, body.target);
  else if (what === "step") state.moves.get(body.job)?.steps.push(body);
  else if (what === "ended") {
    const move = state.moves.get(body.job);
    if (move && body.kind === "migrate" && body.state === "completed") {
      state.places.set(body.job, move.target);
      state.states.set(body.job, "running");
    }
    if (body.kind === "remove" && body.state === "completed") state.places.delete(body.job);
    if (move?.operation === id) state.moves.delete(body.job);
  }
}

/** The picture's view of a moment. */
export function viewAt(events, index, { jobs, sites, at, step }) {
  const state = stateAt(events, jobs, sites, at);
  const known = new Map([...jobs].filter(([name]) => state.places.has(name)));
  const speed = (name) => valueAt(index, `job:${name}/job.event_rate`, at, step);
  return {
    sites: [...state.sites].sort().map(([name, how]) => ({ name, tone: tone(how), note: how })),
    links: [...state.sites].map(([site, how]) => ({ site, tone: how === "down" ? "bad" : "good", note: "" })),
    jobs: inFlowOrder(known).map((name) => {
      const move = state.moves.get(name);
      const arrived = move?.steps.some((step_) => step_.step === "record-owner" && step_.phase === "confirmed");
      const site = arrived ? move.target : state.places.get(name);
      return { name, site, tone: tone(state.states.get(name) ?? "running"), speed: speed(name) === null ? "" : rate(speed(name)),
        title: `${name} at ${site}`, move: move && !arrived ? { target: move.target, fraction: fractionOf(move.strategy, move.steps) } : null };
    }),
    flows: flowsOf(known).map((flow) => ({ ...flow, flowing: (speed(flow.to) ?? 0) > 0, label: "" })),
  };
}
