/**
 * The layout of the mesh's picture. Pure: from names to coordinates.
 */

export const BERTH = { width: 190, height: 32, gap: 8 };
const PADDING = 22;
const HEADER = 78;
const GAP = { x: 96, y: 70 };
/** Space between the end of a wish and a corner of its site. */
const WISH_INSET = 16;
const HUB = { width: 92, height: 32 };
/** Most sites in one row. More take two rows, with the hub between them. */
const ONE_ROW = 3;

const columnsFor = (count) => (count <= 6 ? 1 : count <= 14 ? 2 : 3);

/**
 * `sites`: names. `berths`: site → keys of the jobs there, in order.
 * Returns {width, height, hub, sites: name → box, berths: "site/key" → box}.
 */
export function layout(sites, berths) {
  const rows = sites.length <= ONE_ROW ? [sites]
    : [sites.slice(0, Math.ceil(sites.length / 2)), sites.slice(Math.ceil(sites.length / 2))];
  const sized = rows.map((row) => row.map((name) => sizeOf(name, berths.get(name) ?? [])));
  const widths = sized.map((row) => row.reduce((sum, site) => sum + site.width, 0) + GAP.x * Math.max(0, row.length - 1));
  const width = Math.max(...widths, 560) + 2 * PADDING;
  const placed = { width, sites: new Map(), berths: new Map() };
  let y = PADDING;
  sized.forEach((row, index) => {
    const height = Math.max(...row.map((site) => site.height), 0);
    let x = (width - widths[index]) / 2;
    for (const site of row) {
      place(placed, site, x, index === 0 && sized.length === 2 ? y + height - site.height : y);
      x += site.width + GAP.x;
    }
    y += height + GAP.y;
    if (index === 0) {
      placed.hub = { x: (width - HUB.width) / 2, y: y - GAP.y / 2 + 6, ...HUB };
      y += HUB.height + (sized.length === 2 ? GAP.y / 4 : -GAP.y / 2);
    }
  });
  placed.height = y + PADDING - (sized.length === 2 ? GAP.y : 0);
  return placed;
}

function sizeOf(name, keys) {
  const columns = columnsFor(keys.length);
  const lines = Math.max(1, Math.ceil(keys.length / columns));
  return { name, keys, columns, lines,
    width: 2 * PADDING + columns * BERTH.width + (columns - 1) * BERTH.gap,
    height: HEADER + lines * (BERTH.height + BERTH.gap) + PADDING - BERTH.gap };
}

function place(placed, site, x, y) {
  placed.sites.set(site.name, { x, y, width: site.width, height: site.height });
  site.keys.forEach((key, i) => {
    const column = Math.floor(i / site.lines);
    placed.berths.set(`${site.name}/${key}`, {
      x: x + PADDING + column * (BERTH.width + BERTH.gap),
      y: y + HEADER + (i % site.lines) * (BERTH.height + BERTH.gap),
    });
  });
}

/** Return the point where devices' events enter a site. */
export const portOf = (site) => ({ x: site.x + PADDING - 8, y: site.y + HEADER - 18 });

/** Return a link from a site to the hub as a path, and the place of its label. */
export function linkPath(site, hub) {
  const above = site.y < hub.y;
  const from = { x: site.x + site.width / 2, y: above ? site.y + site.height : site.y };
  const to = { x: hub.x + hub.width / 2, y: above ? hub.y : hub.y + hub.height };
  const middle = (from.y + to.y) / 2;
  return { path: `M${from.x} ${from.y}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`,
    note: { x: from.x + (to.x > from.x ? 10 : 8), y: from.y + (above ? 16 : -8) } };
}

/** Return a path from one berth, or from a port (which has no width), to another berth, and its middle. */
export function flowPath(from, to, fromPort = false) {
  const half = BERTH.height / 2;
  if (fromPort) {
    const x = to.x - 10;
    return { path: `M${from.x} ${from.y}C${x} ${from.y + 8} ${x} ${to.y + half} ${to.x} ${to.y + half}`,
      middle: { x, y: (from.y + to.y) / 2 } };
  }
  const [a, b] = [from.y + half, to.y + half];
  const right = from.x + BERTH.width;
  if (Math.abs(from.x - to.x) < BERTH.width) {
    const out = Math.max(right, to.x + BERTH.width) + 14;
    return { path: `M${right} ${a}C${out} ${a} ${out} ${b} ${to.x + BERTH.width} ${b}`, middle: { x: out, y: (a + b) / 2 } };
  }
  const [start, finish] = to.x > from.x ? [right, to.x] : [from.x, to.x + BERTH.width];
  const bend = (finish - start) / 2;
  return { path: `M${start} ${a}C${start + bend} ${a} ${finish - bend} ${b} ${finish} ${b}`,
    middle: { x: (start + finish) / 2, y: (a + b) / 2 - 6 } };
}

/** Return a path from a berth to the edge of another site. */
export function wishPath(berth, site) {
  const within = (value, low, high) => Math.min(Math.max(value, low), high);
  const toRight = site.x > berth.x + BERTH.width;
  if (toRight || site.x + site.width < berth.x) {
    const [from, to] = toRight ? [berth.x + BERTH.width, site.x - 2] : [berth.x, site.x + site.width + 2];
    const [a, b] = [berth.y + BERTH.height / 2, within(berth.y + 4, site.y + WISH_INSET, site.y + site.height - WISH_INSET)];
    const middle = (from + to) / 2;
    return `M${from} ${a}C${middle} ${a} ${middle} ${b} ${to} ${b}`;
  }
  const [from, to] = site.y > berth.y ? [berth.y + BERTH.height, site.y - 2] : [berth.y, site.y + site.height + 2];
  const [a, b] = [berth.x + BERTH.width / 2, within(berth.x + BERTH.width / 2, site.x + WISH_INSET, site.x + site.width - WISH_INSET)];
  const middle = (from + to) / 2;
  return `M${a} ${from}C${a} ${middle} ${b} ${middle} ${b} ${to}`;
}
