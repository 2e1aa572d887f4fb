/**
 * Make elements of data. Text always becomes text nodes, so no text of the mesh can become markup.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element. Functions among the attributes are listeners. Null and false are left out. */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an SVG element in the same way. */
export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

/** Set an attribute if it differs: an unchanged one costs nothing. */
export function mark(element, name, value) {
  const wanted = value === null || value === undefined ? null : String(value);
  if (element.getAttribute(name) === wanted) return;
  if (wanted === null) element.removeAttribute(name);
  else element.setAttribute(name, wanted);
}

/** Set the text if it differs. */
export function say(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** A table with a caption. Its rows have keys, and only changed cells are updated. */
export class KeyedTable {
  /** @param columns list of [title, class or ""] */
  constructor(caption, columns, nothing) {
    this.body = make("tbody");
    this.nothing = make("p", { class: "empty" }, nothing);
    this.columns = columns;
    this.rows = new Map();
    const titles = columns.map(([title, kind]) => make("th", { scope: "col", class: kind || null }, title));
    this.element = make("div", { class: "scroll" },
      make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, titles)), this.body),
      this.nothing);
  }

  /** Show rows: [key, list of cells]; a cell is text, or a function that makes an element once. */
  show(rows) {
    const seen = new Set();
    for (const [key, cells] of rows) {
      seen.add(key);
      const row = this.rows.get(key) ?? this.#added(key, cells);
      cells.forEach((cell, i) => { if (typeof cell !== "function") say(row.children[i], cell); });
    }
    for (const [key, row] of this.rows) if (!seen.has(key)) { row.remove(); this.rows.delete(key); }
    const keys = rows.map(([key]) => key).join("\n");
    if (keys !== this.order) this.body.append(...rows.map(([key]) => this.rows.get(key)));
    this.order = keys;
    this.nothing.hidden = rows.length > 0;
  }

  #added(key, cells) {
    const row = make("tr", {}, cells.map((cell, i) =>
      make("td", { class: this.columns[i][1] || null }, typeof cell === "function" ? cell() : cell)));
    this.rows.set(key, row);
    return row;
  }
}
