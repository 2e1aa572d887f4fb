/**
 * Format numbers, times and states for people.
 */

export const number = (value) => (value === null || value === undefined || Number.isNaN(value) ? "–"
  : Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en")
  : value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 1 ? 2 : 1 }));

export const rate = (value) => (value === null || value === undefined ? "–" : `${number(value)}/s`);

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function bytes(count) {
  if (count === null || count === undefined || Number.isNaN(count)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let power = 0;
  let shown = count;
  while (shown >= 1000 && power < units.length - 1) { shown /= 1000; power += 1; }
  return `${shown.toLocaleString("en", { maximumFractionDigits: power && shown < 100 ? 1 : 0 })} ${units[power]}`;
}

const dateOf = (moment) => new Date(typeof moment === "number" ? moment * 1000 : moment);

/** Format a moment, given as ISO 8601 or Unix seconds. */
export function clock(moment) {
  if (moment === null || moment === undefined) return "–";
  return dateOf(moment).toLocaleTimeString("en-GB");
}

export function dated(moment) {
  if (moment === null || moment === undefined) return "–";
  return `${dateOf(moment).toLocaleDateString("en-CA")} ${clock(moment)}`;
}

/** Convert ISO 8601 to Unix seconds. */
export const seconds = (moment) => Date.parse(moment) / 1000;

const TONES = {
  up: "good", running: "good", completed: "good", confirmed: "good",
  starting: "warn", held: "warn", retrying: "warn", rolling_back: "warn", rolled_back: "warn", compensated: "warn",
  down: "bad", failed: "bad", fenced: "bad", needs_operator: "bad",
};

/** Rate a state: `good`, `warn`, `bad`, or `none`. */
export const tone = (state) => TONES[state] ?? "none";

/** Describe the change of a site, by the cause of its window. */
export const LACKS = { link: "without a link", down: "down", price: "with energy at another price" };

export const windowText = ({ cause, begins, ends, note }) => `${LACKS[cause]} from ${clock(begins)} to ${clock(ends)}${note ? `, ${note}` : ""}`;

export const movesText = ({ moves, is_twin }) => moves.map(({ job, origin, target }) =>
  `${job}: ${origin} ${is_twin ? "+" : "→"} ${target}`).join(", ");

/** Tell why the autopilot decided for something, and what keeps it from doing it. */
export const becauseText = ({ reason, rule, error }) => `${reason}${rule ? ` (held: ${rule})` : ""}${error ? ` (${error})` : ""}`;

/** Tell how far a job's standby is behind, and what a failover would lose. */
export function standbyText({ standby, behind_s, behind_events, lost_events, unheard_s, note }) {
  const behind = behind_s === null ? "no copy yet"
    : `${duration(behind_s)} and ${number(behind_events)} events behind${lost_events ? `, ${number(lost_events)} of them not mirrored` : ""}`;
  const unheard = unheard_s ? `, by what was heard ${duration(unheard_s)} ago` : "";
  return `${standby}, ${behind}${unheard}${note ? ` (${note})` : ""}`;
}

/** Describe an event of the mesh in one line. */
export function sentence(subject, body) {
  const [kind, id, what] = subject.split(".").slice(3);
  if (kind === "operation" && what === "begun") {
    const move = body.kind === "migrate" ? ` ${body.source} → ${body.target}, ${body.strategy}` : "";
    return `${body.kind} ${body.job}${move}${body.asked_by ? `, asked for by ${body.asked_by}` : ""}`;
  }
  if (kind === "operation" && what === "step") return `${body.job}: ${body.step} ${body.phase}`;
  if (kind === "operation") return `${body.kind} ${body.job}: ${body.state}${body.note ? `: ${body.note}` : ""}`;
  if (kind === "job" && what === "retention") return `${body.input} drops in ${duration(body.left_s)} what ${body.job} has to read`;
  if (kind === "site" && what === "storage") return `disk of ${body.site}: ${body.state}, ${bytes(body.free_bytes)} free`;
  if (kind === "site" && what === "not-kept") return `${body.site} has not kept ${body.events} events`;
  if (kind === "job") return `${body.job} at ${body.site}: ${body.state}${body.error ? `: ${body.error}` : ""}`;
  if (kind === "site" && what === "device") return `device ${body.device} at ${body.site}: ${body.online ? "online" : "offline"}`;
  if (kind === "site") return `site ${body.site}: ${body.state}${body.note ? `: ${body.note}` : ""}`;
  if (kind === "webhook") return `the webhook of ${body.job} has not taken result ${body.serial}: ${body.error}`;
  if (kind === "fault") return `fault rule ${body.rule}: ${what}`;
  if (kind === "link") return `link of ${body.site}: ${body.conditions?.cut ? "cut" : "changed"}`;
  if (kind === "pipeline") return `pipeline ${body.pipeline}: ${what}${body.state ? ` ${body.state}` : ""}`;
  if (kind === "plan") return `plan ${body.plan}, version ${body.version}: ${body.state}, wave ${body.wave} of ${body.waves}`;
  if (kind === "decision") return `autopilot: ${movesText(body.now)}: ${body.now.state}: ${becauseText(body.now)}`;
  if (kind === "window") return `site ${body.now.site} ${body.withdrawn ? "as usual, not" : "will be"} ${windowText(body.now)}`;
  if (kind === "security" && body.address) return `refused: ${body.times} wrong token${body.times > 1 ? "s" : ""}, the last from ${body.address}`;
  if (kind === "coordinator") return `${body.coordinator} leads in term ${body.term}`;
  if (kind === "command") return `refused: ${body.request}: ${body.error?.message ?? ""}`;
  return `${kind} ${id} ${what}`;
}
