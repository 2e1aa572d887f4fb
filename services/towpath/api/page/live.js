/**
 * Server-sent events. They are read with fetch, because the token goes in a header. Reconnects by itself.
 */

import { Problem, send } from "./api.js";

const AGAIN_MS = [500, 1000, 2000, 5000];
/** Silence that means a lost connection: longer than the service is ever silent on purpose. */
const SILENCE_MS = 40_000;

/** Yield the events of a response: {event, id, data}, with data as JSON. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) yield parsed(part);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parsed(part) {
  const found = { event: "message", id: null, data: null };
  for (const line of part.split("\n")) {
    const at = line.indexOf(":");
    const [field, value] = [line.slice(0, at), line.slice(at + 1).trimStart()];
    if (field === "event") found.event = value;
    else if (field === "id") found.id = Number(value);
    else if (field === "data") found.data = JSON.parse(value);
  }
  return found;
}

/** Return all stored events of the mesh, oldest first: [{serial, subject, body}]. */
export async function keptEvents(subject = null, signal = undefined) {
  const query = new URLSearchParams({ after: "0", follow: "false", ...(subject ? { subject } : {}) });
  const found = [];
  for await (const { id, data } of events(await send("GET", `/events?${query}`, { signal }))) {
    if (data && data.subject) found.push({ serial: id, ...data });
  }
  return found;
}

/**
 * Follow a stream of events until refused. `told` gets each event; `stands(state, why)` gets the state of the
 * connection: `live`, `lost`, or `refused`, after which it is not tried again.
 * @param path a function that names the path before each attempt
 */
async function follow(path, told, stands, refusals, signal) {
  for (let failures = 0; !signal?.aborted; failures += 1) {
    const aborting = new AbortController();
    const abort = () => aborting.abort();
    signal?.addEventListener("abort", abort);
    let silence = null;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(abort, SILENCE_MS);
    };
    try {
      heard();
      const response = await send("GET", path(), { signal: aborting.signal });
      for await (const found of events(response)) {
        heard();
        if (found.data !== null) {
          failures = 0;
          told(found);
        }
        // Also without data: the service says at once, and now and then, that there is nothing new.
        stands("live");
      }
    } catch (error) {
      if (error instanceof Problem && refusals.includes(error.status)) {
        stands("refused", error.message);
        return;
      }
    } finally {
      clearTimeout(silence);
      signal?.removeEventListener("abort", abort);
    }
    if (signal?.aborted) return;
    stands("lost");
    await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)]); });
  }
}

/** Follow the mesh. `told(kind, content)` gets snapshots, changes and events; `stands` is as in `follow`. */
export const followMesh = (told, stands) => follow(() => "/live", ({ event, data }) => told(event, data), stands, [401, 403]);

/** Follow the answers of running queries: the newest first, then all that come. `told(serial, answer)` gets each. */
export function followAnswers(name, newest, told, stands, signal) {
  let last = null;
  const path = () => `/queries/${name}/answers?${last === null ? `newest=${newest}` : `after=${last}`}`;
  return follow(path, ({ event, id, data }) => {
    if (event === "lost") { last = null; return; }
    last = id;
    told(id, data);
  }, stands, [401, 403, 404], signal);
}
