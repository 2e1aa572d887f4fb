/**
 * Query texts that a user keeps under a name: in this browser, and as files that end in `.sight`.
 */

import { make } from "./elements.js";

const KEY = "towpath-queries";

const load = () => JSON.parse(localStorage.getItem(KEY) ?? "{}");
const keep = (texts) => localStorage.setItem(KEY, JSON.stringify(texts));

export class SavedQueries {
  /** @param editing `{ read() → {name, text}, write(name, text) }` for the text in the editor */
  constructor(editing, report) {
    this.editing = editing;
    this.report = report;
    this.known = make("select", { "aria-label": "Saved texts", onchange: () => this.#open() });
    this.file = make("input", { type: "file", accept: ".sight,text/plain", hidden: true, "aria-label": "File to import", onchange: () => this.#import() });
    const button = (label, onclick) => make("button", { type: "button", class: "slim", onclick }, label);
    this.element = make("div", { class: "row saved" }, this.known, button("Save", () => this.#save()), button("Forget", () => this.#forget()),
      make("span", { class: "grow" }), button("Import …", () => this.file.click()), button("Export", () => this.#export()), this.file);
    this.#list("");
  }

  #list(chosen) {
    const names = Object.keys(load()).sort();
    this.known.replaceChildren(make("option", { value: "" }, names.length ? "Saved texts …" : "No saved texts"),
      ...names.map((name) => make("option", { value: name }, name)));
    this.known.value = chosen;
  }

  #open() {
    const text = load()[this.known.value];
    if (text !== undefined) this.editing.write(this.known.value, text);
  }

  #save() {
    const { name, text } = this.#named();
    if (!name) return;
    try {
      keep({ ...load(), [name]: text });
    } catch (error) {
      this.report(`${name} is not saved: ${error.message}`, true);
      return;
    }
    this.#list(name);
    this.report(`${name} is saved in this browser.`);
  }

  #forget() {
    const { [this.known.value]: forgotten, ...others } = load();
    if (forgotten === undefined) return;
    keep(others);
    this.#list("");
  }

  async #import() {
    const [file] = this.file.files;
    this.file.value = "";
    if (file) this.editing.write(nameOf(file.name), await file.text());
  }

  #export() {
    const { name, text } = this.#named();
    if (!name) return;
    const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    make("a", { href: address, download: `${name}.sight` }).click();
    URL.revokeObjectURL(address);
  }

  #named() {
    const found = this.editing.read();
    if (!found.name) this.report("Give the queries a name first.", true);
    return found;
  }
}

/** Return the name that queries of a file get, as the command line names them. */
export function nameOf(file) {
  const name = file.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return (/^[a-z]/.test(name) ? name : `job-${name}`).slice(0, 48).replace(/-$/, "");
}
