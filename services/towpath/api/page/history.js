/**
 * Measured history: series of the collector in common columns for charts.
 */

import { look } from "./api.js";

/** Return series from `since` on (Unix seconds): metric → Map of site → points. Empty without samples. */
export async function history(metrics, entities, { since, until = null, points = 300, signal } = {}) {
  const step = Math.max(2, Math.round(((until ?? Date.now() / 1000) - since) / points));
  const iso = (at) => new Date(at * 1000).toISOString().replace(/\.\d+/, "");
  const query = new URLSearchParams({ metrics: metrics.join(","), entities: entities.join(","), since: iso(since),
    step_s: String(step), limit: "100000", ...(until ? { until: iso(until) } : {}) });
  return (await look(`/series?${query}`, { signal })).series;
}

/**
 * Return one list of times, and one of values per metric. A job's samples come from the site that ran it.
 * Where two sites have samples of one moment, those of the later owner count.
 */
export function columnsOf(series, metrics) {
  const times = [...new Set(series.flatMap((one) => one.points.map(([at]) => at)))].sort((a, b) => a - b);
  const index = new Map(times.map((at, i) => [at, i]));
  const columns = metrics.map((metric) => {
    const values = new Array(times.length).fill(null);
    const ofMetric = series.filter((one) => one.metric === metric)
      .sort((a, b) => (a.points.at(-1)?.[0] ?? 0) - (b.points.at(-1)?.[0] ?? 0));
    for (const one of ofMetric) for (const [at, value] of one.points) values[index.get(at)] = value;
    return values;
  });
  return [times, ...columns];
}

/** Append the page's own later samples to columns from history. */
export function continued(columns, samples, fields) {
  const last = columns[0].at(-1) ?? 0;
  const newer = samples.filter((sample) => sample.at > last);
  return [[...columns[0], ...newer.map((sample) => sample.at)],
    ...fields.map((field, i) => [...columns[i + 1], ...newer.map((sample) => sample[field] ?? null)])];
}
