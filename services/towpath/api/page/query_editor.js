/**
 * A box to write queries in: coloured, with mistakes underlined and completion, both by the mesh's own grammar.
 */

import { ask } from "./api.js";
import { make, mark, say } from "./elements.js";

const CHECK_MS = 200;
const SHOWN = 8;
const ALLOWED = 12;
const WORDS = /(#[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|("[^"\n]*"?)|\b(STREAM|FROM|COMPUTE|EVERY|BY|WHEN|WITH|AND|OR|IN|INSIGHT)\b|([A-Za-z_]\w*)(?=\s*[([])|(\b\d[\d.]*)/gi;
const KINDS = ["comment", "quoted", "keyword", "function", "number"];

/** Positions of the mesh count characters, those of the browser parts of them. */
const unitsOf = (text, characters) => [...text].slice(0, characters).join("").length;
const charactersOf = (text, units) => [...text.slice(0, units)].length;

export class QueryEditor {
  /** @param context `() → {at, filled}` of the text; `told(found, text)` gets each answer to a check */
  constructor(context, told) {
    this.context = context;
    this.told = told;
    this.help = { begin: 0, offers: [] };
    this.chosen = 0;
    this.behind = make("pre", { "aria-hidden": "true" });
    this.offers = make("ul", { id: "offers", role: "listbox", "aria-label": "Words that may stand here", hidden: true });
    this.mistake = make("p", { id: "mistake", role: "status", class: "mistake" });
    this.area = make("textarea", { class: "code", spellcheck: "false", autocomplete: "off", autocapitalize: "off", required: true, rows: 1,
      "aria-label": "Query text", "aria-autocomplete": "list", "aria-controls": "offers", "aria-haspopup": "listbox", "aria-describedby": "mistake",
      oninput: () => this.#typed(), onkeydown: (event) => this.#key(event), onblur: () => this.#close(),
      onclick: () => this.#close() });
    this.element = make("div", {}, make("div", { class: "editor" }, this.behind, this.area, this.offers), this.mistake);
    this.#paint();
  }

  get text() { return this.area.value; }

  set text(value) {
    this.area.value = value;
    this.found = null;
    this.#paint();
    this.check();
  }

  /** Ask for mistakes and offers soon: once when several things change. */
  check(offering = false) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#check(offering), CHECK_MS);
  }

  /** Stop all work in the background. */
  end() {
    clearTimeout(this.waiting);
    this.asking?.abort();
  }

  async #check(offering) {
    clearTimeout(this.waiting);
    this.asking?.abort();
    this.asking = new AbortController();
    const { text, area } = this;
    const { at, filled } = this.context();
    const cursor = charactersOf(text, area.selectionStart);
    try {
      const found = await ask("/queries/check", { text, cursor, filled, ...(at ? { at } : {}) }, { signal: this.asking.signal });
      if (text !== this.text) return;
      this.found = found;
      this.help = { begin: unitsOf(text, found.offers_begin), offers: found.offers };
      this.told(found, text);
      this.#paint();
      this.#say(text.trim() ? found.mistake : null);
      if (offering) this.#offer(offering === "asked");
    } catch (error) {
      if (error.name !== "AbortError") this.#say({ message: `the text cannot be checked: ${error.message}` });
    }
  }

  #typed() {
    this.found = null;
    this.#paint();
    if (!this.offers.hidden) this.#offer();
    this.check(true);
  }

  /** Say a mistake. Where a text only ends too early, someone is still writing. */
  #say(mistake) {
    const open = mistake?.line && this.#placeOf(mistake) >= this.text.trimEnd().length;
    mark(this.area, "aria-invalid", mistake && !open ? "true" : null);
    mark(this.mistake, "data-tone", mistake ? (open ? "open" : "bad") : null);
    say(this.mistake, mistake ? sentenceOf(mistake) : "");
  }

  #placeOf({ line, column }) {
    const lines = this.text.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    return before + unitsOf(lines[line - 1] ?? "", column - 1);
  }

  /** Colour the text, and underline the mistake. */
  #paint() {
    const { text } = this;
    const mistake = this.found?.mistake;
    const from = text.trim() && mistake?.line ? this.#placeOf(mistake) : -1;
    const to = from < 0 ? -1 : from + (/^(?:"[^"\n]*"?|\w+|[^\w\s]|$)/.exec(text.slice(from))?.[0].length || 1);
    const parts = [];
    const put = (begin, end, kind) => {
      for (const [first, last, wrong] of [[begin, Math.min(end, from)], [Math.max(begin, from), Math.min(end, to), true], [Math.max(begin, to), end]]) {
        if (last <= first) continue;
        const classes = [kind, wrong && "wrong"].filter(Boolean).join(" ");
        parts.push(classes ? make("span", { class: classes }, text.slice(first, last)) : text.slice(first, last));
      }
    };
    let at = 0;
    for (const match of text.matchAll(WORDS)) {
      put(at, match.index, null);
      at = match.index + match[0].length;
      put(match.index, at, KINDS[match.slice(1).findIndex((group) => group !== undefined)]);
    }
    put(at, text.length, null);
    if (from >= text.length) parts.push(make("span", { class: "wrong" }, " "));
    this.behind.replaceChildren(...parts, "\n");
  }

  #key(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.#check("asked");
      return;
    }
    if (this.offers.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#choose((this.chosen + step + this.offered.length) % this.offered.length);
    else if (event.key === "Enter" || event.key === "Tab") this.#take(this.offered[this.chosen]);
    else if (event.key === "Escape") this.#close();
    else return;
    event.preventDefault();
  }

  /** Show the words that go on with what is written in front of the cursor. */
  #offer(asked = false) {
    const { selectionStart: cursor, selectionEnd } = this.area;
    const begun = this.text.slice(this.help.begin, cursor);
    const quoted = /["][^"\n]*$/.test(this.text.slice(0, cursor).split("\n").at(-1).replace(/"[^"\n]*"/g, ""));
    const fits = cursor === selectionEnd && cursor >= this.help.begin && /^[^\s",()]*$/.test(begun) && (asked || begun || quoted);
    this.offered = fits ? this.help.offers.filter(({ text }) => text.toLowerCase().startsWith(begun.toLowerCase()) && text !== begun) : [];
    if (!this.offered.length || document.activeElement !== this.area) { this.#close(); return; }
    this.offers.replaceChildren(...this.offered.map((offer, i) => make("li", { id: `offer-${i}`, role: "option", "aria-selected": "false",
      onpointerdown: (event) => { event.preventDefault(); this.#take(offer); } }, offer.text, make("span", { class: "soft small" }, offer.kind))));
    this.#place();
    this.offers.hidden = false;
    this.#choose(0);
  }

  /** Put the list below the beginning of the word. A copy of the text in front of it tells where that is. */
  #place() {
    const probe = make("span", {}, "\u200b");
    const measured = make("pre", { class: "probe" }, this.text.slice(0, this.help.begin), probe);
    this.behind.after(measured);
    this.offers.style.left = `${Math.min(probe.offsetLeft, this.area.clientWidth - 220)}px`;
    this.offers.style.top = `${probe.offsetTop + probe.offsetHeight + 2}px`;
    this.offers.style.setProperty("--shown", SHOWN);
    measured.remove();
  }

  #choose(index) {
    this.offers.children[this.chosen]?.setAttribute("aria-selected", "false");
    this.chosen = index;
    const item = this.offers.children[index];
    item.setAttribute("aria-selected", "true");
    item.scrollIntoView({ block: "nearest" });
    mark(this.area, "aria-activedescendant", item.id);
  }

  #take(offer) {
    const after = offer.kind === "function" ? "(" : offer.kind === "clause" || offer.kind === "option" ? " " : offer.kind === "parameter" ? '="' : "";
    this.area.setRangeText(offer.text + after, this.help.begin, this.area.selectionStart, "end");
    this.#close();
    this.#typed();
  }

  #close() {
    this.offers.hidden = true;
    mark(this.area, "aria-activedescendant", null);
  }
}

/** Say what is wrong, where, and what could stand there. */
function sentenceOf({ message, line, column, allowed }) {
  const where = line ? `Line ${line}, column ${column}: ` : "";
  const words = [allowed ?? []].flat();
  const more = words.length > ALLOWED ? ` and ${words.length - ALLOWED} more` : "";
  return `${where}${message}${words.length ? `${message.endsWith("?") ? "" : "."} Allowed: ${words.slice(0, ALLOWED).join(", ")}${more}` : ""}`;
}
