/**
 * What is ahead in the picture of the mesh: moves that someone wants, and windows of sites. Pure.
 */

import { becauseText, seconds, windowText } from "./wording.js";

/** States of a decision that people can still answer. */
export const WAITS = new Set(["proposed", "planned", "held"]);

/**
 * Return the moves that open decisions and a proposal of places want: [{job, target, title}].
 * `jobs` and `decisions`: Maps, as in the model. `proposal`: as `/placement` answers, or null.
 */
export function wishesOf({ jobs, decisions }, proposal = null) {
  const found = new Map();
  const add = (job, target, why) => {
    const at = jobs.get(job)?.site;
    if (at && at !== target) found.set(`${job}/${target}`, { job, target, title: `${job}: ${at} → ${target}, ${why}` });
  };
  for (const { job, proposed } of proposal?.jobs ?? []) add(job, proposed, `as the policy ${proposal.policy} proposes`);
  for (const decision of decisions.values()) {
    if (!WAITS.has(decision.state) && decision.state !== "moving") continue;
    for (const { job, target } of decision.moves) add(job, target, `${decision.state}: ${becauseText(decision)}`);
  }
  return [...found.values()];
}

/** Return the sign of a site with windows that are open or begin within the horizon: {title, open}. Null without. */
export function signOf({ windows, autopilot, at }, site) {
  const until = at + (autopilot.get("hub")?.horizon_s ?? 0);
  const ahead = [...windows.values()].sort((one, other) => seconds(one.begins) - seconds(other.begins))
    .filter((window) => window.site === site && seconds(window.ends) > at && seconds(window.begins) <= until);
  if (!ahead.length) return null;
  return { title: `${site}: ${ahead.map(windowText).join("; ")}`, open: seconds(ahead[0].begins) <= at };
}
