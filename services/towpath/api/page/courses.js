/**
 * The steps of each strategy, in order, so that the page can show steps to come.
 * The journal of a migration says which steps were taken. Those that are not listed here are shown, too.
 */

const BEGIN = ["assign-source", "assign-target", "launch-retrieve"];
const FINISH = ["record-owner", "reset-source", "reset-target"];

const SHADOW = ["open-shadow", "ship-checkpoint", "launch-shadow", "start-monitor", "await-consistency"];

export const COURSES = {
  restart: [...BEGIN, "pause-transfer", "set-epoch", "resume", ...FINISH, "observe"],
  general: [...BEGIN, "pause-transfer", "set-epoch", "resume", ...FINISH, "observe"],
  handover: [...BEGIN, ...SHADOW, "set-epoch", "stop-monitor", ...FINISH],
  parallel: [...BEGIN, "divert", "start-monitor", "note-progress", "launch-divert", "await-consistency", "terminate",
    "remove-divert", "stop-monitor", ...FINISH],
  twin: [...BEGIN, ...SHADOW, "share-output", "stop-monitor", "run-both", "set-epoch", ...FINISH],
};

export const STRATEGIES = ["auto", "handover", "general", "parallel", "restart", "twin"];

/**
 * Return the steps of a migration: [{step, phase, at}]. Those to come have an empty phase.
 * `entries` are journal lines or step events, in order.
 */
export function courseOf(strategy, entries, running) {
  const latest = new Map();
  for (const entry of entries) latest.set(entry.step, entry);
  const undone = entries.some((entry) => ["failed", "compensating", "compensated"].includes(entry.phase));
  const steps = [...latest.values()].map(({ step, phase, at }) => ({ step, phase, at }));
  if (!running || undone) return steps;
  const toCome = (COURSES[strategy] ?? []).filter((step) => !latest.has(step));
  if (toCome.length && !steps.some((step) => step.phase === "begun")) {
    steps.push({ step: toCome.shift(), phase: "begun", at: null });
  }
  return [...steps, ...toCome.map((step) => ({ step, phase: "", at: null }))];
}

/** Return the progress of a migration, from 0 to 1. */
export function fractionOf(strategy, entries) {
  const done = new Set(entries.filter((entry) => entry.phase === "confirmed").map((entry) => entry.step));
  for (const entry of entries) if (entry.phase === "compensated") done.delete(entry.step);
  return Math.min(1, done.size / (COURSES[strategy]?.length ?? 10));
}
