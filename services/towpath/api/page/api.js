/**
 * Requests to the REST interface, with the token. A refusal is thrown as a `Problem` with the mesh's text.
 */

const KEY = "towpath-token";

/** The token of this tab. Null before the login. */
export const token = () => sessionStorage.getItem(KEY);

/** Keep the token as long as the tab lives. Null deletes it. */
export function keepToken(value) {
  if (value === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, value);
}

/** Move the token out of the address, where `towpath access` puts it. */
export function takeTokenFromAddress() {
  const given = /^#token=([^&]+)$/.exec(location.hash);
  if (!given) return;
  keepToken(decodeURIComponent(given[1]));
  history.replaceState(null, "", `${location.pathname}#mesh`);
}

/** A refusal of the mesh, or the reason why it cannot be reached. */
export class Problem extends Error {
  constructor(status, content) {
    super(Problem.text(content));
    this.status = status;
    this.content = content;
  }

  static text(content) {
    const field = content.field ? ` (${content.field}${content.value !== undefined ? `: ${JSON.stringify(content.value)}` : ""})` : "";
    const allowed = content.allowed ? ` – allowed: ${[content.allowed].flat().join(", ")}` : "";
    const inner = (content.errors ?? []).map((e) => `\n• ${e.field ? `${e.field}: ` : ""}${e.message}`).join("");
    return `${content.detail ?? content.title ?? "the request failed"}${field}${allowed}${inner}`;
  }
}

/** Return a successful response. Throws `Problem`. */
export async function send(method, path, { body, type = "application/json", headers = {}, signal } = {}) {
  const shown = { Authorization: `Bearer ${token() ?? ""}`, ...headers };
  if (body !== undefined) shown["Content-Type"] = type;
  let response;
  try {
    response = await fetch(path, { method, headers: shown, body, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "the mesh cannot be reached" });
  }
  if (response.ok) return response;
  throw new Problem(response.status, await response.json().catch(() => ({ detail: response.statusText })));
}

/** Return the JSON that a path answers. */
export async function look(path, options) {
  return (await send("GET", path, options)).json();
}

/** Change something. A change sent several times is one command. */
export async function change(method, path, content, { type } = {}) {
  const body = content === undefined ? undefined : typeof content === "string" ? content : JSON.stringify(content);
  const headers = { "Idempotency-Key": crypto.randomUUID?.() ?? `page-${Date.now()}-${Math.floor(performance.now())}` };
  const response = await send(method, path, { body, type, headers });
  return response.json();
}

/** Ask a question that needs a body. */
export async function ask(path, content, { type, signal } = {}) {
  const body = typeof content === "string" ? content : JSON.stringify(content);
  return (await send("POST", path, { body, type, signal })).json();
}
