// The parts of a browser's document that the page's modules use, for Node.js: elements without layout or painting.
class Node {
    constructor(tag, text = "") {
        Object.assign(this, {tag, text, parent: null, nodes: [], attributes: new Map(), listeners: new Map()});
        Object.assign(this, {hidden: false, disabled: false, checked: false, files: [], selectionStart: 0, selectionEnd: 0});
        this.style = {setProperty() {}};
    }
    get children() { return this.nodes.filter(({tag}) => tag); }
    get textContent() { return this.tag ? this.nodes.map(node => node.textContent).join("") : this.text; }
    set textContent(text) { this.replaceChildren(text); }
    get value() { return this.written ?? this.getAttribute("value") ?? ""; }
    set value(text) { this.written = text; }
    append(...nodes) {
        for (const node of nodes.map(one => one instanceof Node ? one : new Node("", String(one)))) {
            node.remove();
            node.parent = this;
            this.nodes.push(node);
        }
    }
    remove() {
        if (this.parent) this.parent.nodes = this.parent.nodes.filter(node => node !== this);
        this.parent = null;
    }
    replaceChildren(...nodes) {
        for (const node of this.nodes) node.parent = null;
        this.nodes = [];
        this.append(...nodes);
    }
    replaceWith(node) {
        const others = this.parent.nodes.map(one => one === this ? node : one);
        this.parent.replaceChildren(...others);
    }
    getAttribute(name) { return this.attributes.get(name) ?? null; }
    setAttribute(name, value) { this.attributes.set(name, value); }
    removeAttribute(name) { this.attributes.delete(name); }
    addEventListener(name, listener) { this.listeners.set(name, listener); }
    // Call the listener of an event, as a user's doing would.
    tell(name, about = {}) { return this.listeners.get(name)({target: this, preventDefault() {}, ...about}); }
    click() { this.tell("click"); }
    focus() {}
    // All elements inside that have this tag.
    all(tag) { return this.children.flatMap(node => [...node.tag === tag ? [node] : [], ...node.all(tag)]); }
}
const stored = new Map();
const storage = {getItem: name => stored.get(name) ?? null, setItem: (name, text) => stored.set(name, text),
    removeItem: name => stored.delete(name)};
const element = (...path) => new Node(path.at(-1));
const document = {createElement: element, createElementNS: element, body: element("body"), activeElement: null};
for (const [name, value] of Object.entries({Node, document, localStorage: storage, sessionStorage: storage,
    confirm: () => true, ResizeObserver: class { observe() {} disconnect() {} }})) {
    Object.defineProperty(globalThis, name, {value, configurable: true, writable: true});
}
