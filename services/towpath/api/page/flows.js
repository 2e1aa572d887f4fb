/**
 * The edges of the picture: which job reads whose results, by inputs and outputs. Pure.
 */

/** Return jobs in the direction of data, producers before consumers. `jobs`: Map of name → LiveJob. */
export function inFlowOrder(jobs) {
  const producers = producersOf(jobs);
  const depths = new Map();
  const depth = (name, above) => {
    if (depths.has(name)) return depths.get(name);
    if (above.has(name)) return 0;
    const before = sourcesOf(jobs.get(name), producers).filter((source) => source.from);
    const found = before.length ? 1 + Math.max(...before.map((s) => depth(s.from, new Set([...above, name])))) : 0;
    depths.set(name, found);
    return found;
  };
  return [...jobs.keys()].sort((a, b) => depth(a, new Set()) - depth(b, new Set()) || a.localeCompare(b));
}

/** [{from: job or null, port: site or null, to: job}] */
export function flowsOf(jobs) {
  const producers = producersOf(jobs);
  return [...jobs].flatMap(([name, job]) => {
    const seen = new Set();
    return sourcesOf(job, producers).filter(({ from, port }) => {
      const key = from ?? `port ${port}`;
      return seen.has(key) ? false : seen.add(key);
    }).map((source) => ({ ...source, to: name }));
  });
}

/** The output of a job of the past may be unknown. */
const producersOf = (jobs) => new Map([...jobs].filter(([, job]) => job.output)
  .map(([name, job]) => [`${job.output.first_site ?? job.output.site}/${job.output.stream}`, name]));

function sourcesOf(job, producers) {
  return job.inputs.map((input) => {
    const from = input.from_device ? null : producers.get(`${input.site}/${input.stream}`) ?? null;
    return { from, port: from === null ? input.site : null };
  });
}
