/**
 * Dragging of jobs to sites in the picture of the mesh, and the key m for those who do not use a pointer.
 */

import { BERTH } from "./mesh_layout.js";

const DRAG_PX = 6;

/** Let the jobs of a picture be dragged. Its `asked` gets (job, site), or (job, null) by the key m. */
export function makeDraggable(picture) {
  const svg = picture.element;
  let begun = null;
  const at = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const siteAt = (point) => [...picture.placed.sites].find(([, box]) => point.x >= box.x && point.x <= box.x + box.width
    && point.y >= box.y && point.y <= box.y + box.height)?.[0] ?? null;
  const aim = (name) => { for (const node of picture.layers.sites.children) node.classList.toggle("aimed", node.dataset.site === name); };
  const finish = () => {
    picture.dragged?.classList.remove("dragged");
    [picture.dragged, begun] = [null, null];
    aim(null);
  };
  svg.addEventListener("pointerdown", (event) => {
    const node = event.target.closest?.(".job");
    if (node && event.button === 0) begun = { node, from: at(event), home: node.style.transform };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!begun) return;
    const point = at(event);
    if (!picture.dragged && Math.hypot(point.x - begun.from.x, point.y - begun.from.y) < DRAG_PX) return;
    if (!picture.dragged) svg.setPointerCapture(event.pointerId);
    picture.dragged = begun.node;
    picture.dragged.classList.add("dragged");
    picture.dragged.style.transform = `translate(${point.x - BERTH.width / 2}px, ${point.y - BERTH.height / 2}px)`;
    aim(siteAt(point));
  });
  svg.addEventListener("pointerup", (event) => {
    const node = picture.dragged;
    if (node) {
      node.style.transform = begun.home;
      const site = siteAt(at(event));
      // Letting go is not a click on the link. If a click comes, it comes before the timeout.
      const swallow = (click) => click.preventDefault();
      svg.addEventListener("click", swallow, { capture: true });
      setTimeout(() => {
        svg.removeEventListener("click", swallow, { capture: true });
        if (site) picture.asked(node.dataset.job, site);
      });
    }
    finish();
  });
  svg.addEventListener("pointercancel", finish);
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("keydown", (event) => {
    const node = event.target.closest?.(".job");
    if (node && event.key === "m" && !event.ctrlKey && !event.metaKey) picture.asked(node.dataset.job, null);
  });
}
