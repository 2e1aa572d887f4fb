/**
 * The page: its login, its views, and the state of its connection.
 */

import { keepToken, look, takeTokenFromAddress, token } from "./api.js";
import { ActionsView } from "./actions.js";
import { make, say } from "./elements.js";
import { JobView } from "./job.js";
import { followMesh } from "./live.js";
import { MeshModel } from "./mesh_model.js";
import { MeshView } from "./mesh.js";
import { MigrateDialog } from "./migrate_dialog.js";
import { MigrationsView } from "./migrations.js";
import { QueriesView } from "./queries.js";
import { ReplayView } from "./replay.js";

const VIEWS = { mesh: MeshView, job: JobView, queries: QueriesView, migrations: MigrationsView, actions: ActionsView, replay: ReplayView };
const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };
const THEME_KEY = "towpath-theme";
const MESSAGE_MS = 7000;
const NAME = /^[A-Za-z0-9-]{1,64}$/;

const main = document.getElementById("main");
const model = new MeshModel();
const dialog = new MigrateDialog(document.getElementById("migrate"), model, report);
const context = { model, report, migrate: (job, site) => dialog.open(job, site) };
let view = null;

/** Show a message for a while. */
function report(text, bad = false) {
  const message = make("p", { class: bad ? "message bad" : "message" }, text);
  document.getElementById("messages").append(message);
  setTimeout(() => message.remove(), MESSAGE_MS);
}

/** Show the view that the address names: `#job/hourly-jfk`. */
function route() {
  const [name, ...parts] = location.hash.slice(1).split("/");
  if (name === "main" && view) return;
  const shown = VIEWS[name] ? name : "mesh";
  view?.end?.();
  view = new VIEWS[shown](context, parts.filter((part) => NAME.test(part)));
  main.replaceChildren(...view.element);
  document.title = `${parts[0] ?? shown[0].toUpperCase() + shown.slice(1)} – Towpath`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  view.show();
}

function stands(state, why = "") {
  const connection = document.getElementById("connection");
  connection.dataset.state = state;
  const away = [...model.unanswered.keys()].join(", ");
  say(connection, state === "live" ? (away ? `live, without ${away}` : "live") : state === "lost" ? "connection lost, reconnecting" : "not logged in");
  if (state === "refused") logIn(why);
}

function theme(chosen) {
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  const button = document.getElementById("theme");
  say(button, THEMES[chosen]);
  button.setAttribute("aria-label", `Colours: ${chosen === "auto" ? "as the system" : chosen}`);
  localStorage.setItem(THEME_KEY, chosen);
  view?.repaint?.();
}

/** Ask for the token until it is right. */
function logIn(problem = "") {
  keepToken(null);
  const form = document.getElementById("login-form");
  const said = document.getElementById("login-problem");
  const asking = document.getElementById("login");
  said.hidden = !problem;
  say(said, problem);
  form.onsubmit = async (event) => {
    event.preventDefault();
    keepToken(document.getElementById("token").value.trim());
    try {
      await look("/sites");
      asking.close();
      begin();
    } catch (error) {
      said.hidden = false;
      say(said, error.message);
    }
  };
  asking.oncancel = (event) => event.preventDefault();
  if (!asking.open) asking.showModal();
}

function begin() {
  route();
  followMesh((kind, content) => model.take(kind, content), stands);
}

model.listen((sections) => view?.show(sections));
addEventListener("hashchange", () => {
  takeTokenFromAddress();
  if (token()) route();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view?.repaint?.());
document.getElementById("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  theme(names[(names.indexOf(localStorage.getItem(THEME_KEY) ?? "auto") + 1) % names.length]);
});
takeTokenFromAddress();
theme(localStorage.getItem(THEME_KEY) ?? "auto");
if (token()) begin();
else logIn();
