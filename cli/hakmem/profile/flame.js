"use strict";
// Zoom and search of a flame graph. Each group is a frame: data-x and data-w are its place and width as parts of the whole.
(() => {
  const svg = document.documentElement;
  const frames = Array.from(svg.querySelectorAll("g.frame"));
  const status = svg.querySelector("#status");
  const inner = Number(svg.dataset.inner), margin = Number(svg.dataset.margin), letter = Number(svg.dataset.letter);
  const place = (frame) => ({ x: Number(frame.dataset.x), w: Number(frame.dataset.w), depth: Number(frame.dataset.depth) });

  // Draws the frames in [from, from + width], with the frames below `focus` stretched over the whole width.
  function zoom(focus) {
    const { x: from, w: width, depth } = focus ? place(focus) : { x: 0, w: 1, depth: 0 };
    for (const frame of frames) {
      const { x, w, depth: own } = place(frame);
      const above = own < depth && x <= from + 1e-9 && x + w >= from + width - 1e-9;
      const within = own >= depth && x >= from - 1e-9 && x + w <= from + width + 1e-9;
      frame.classList.toggle("hidden", !above && !within);
      frame.classList.toggle("above", above);
      if (!above && !within) continue;
      const left = margin + (above ? 0 : (x - from) / width) * inner;
      const wide = (above ? 1 : w / width) * inner;
      const rectangle = frame.querySelector("rect"), text = frame.querySelector("text");
      rectangle.setAttribute("x", left.toFixed(2));
      rectangle.setAttribute("width", Math.max(wide - 0.5, 0.5).toFixed(2));
      text.setAttribute("x", (left + 3).toFixed(2));
      const name = frame.dataset.name, fits = Math.floor((wide - 6) / letter);
      text.textContent = fits < 3 ? "" : name.length <= fits ? name : name.slice(0, fits - 1) + "…";
    }
  }

  function search(words) {
    let pattern = null;
    try { pattern = words ? new RegExp(words, "i") : null; } catch { status.textContent = "not a regular expression: " + words; return; }
    const found = frames.filter((frame) => {
      const hit = pattern !== null && pattern.test(frame.dataset.name);
      frame.classList.toggle("found", hit);
      return hit;
    });
    // A match inside another match counts once.
    let share = 0, reached = -1;
    for (const { x, w } of found.map(place).sort((a, b) => a.x - b.x || b.w - a.w)) {
      if (x + w > reached + 1e-12) { share += x + w - Math.max(x, reached); reached = x + w; }
    }
    status.textContent = pattern === null ? "" : `${words}: ${found.length} frames, ${(100 * share).toFixed(1)}%`;
  }

  for (const frame of frames) frame.addEventListener("click", () => zoom(frame));
  svg.querySelector("#all").addEventListener("click", () => zoom(null));
  const ask = () => { const words = prompt("Find functions (a regular expression)", ""); if (words !== null) search(words); };
  svg.querySelector("#find").addEventListener("click", ask);
  document.addEventListener("keydown", (event) => { if (event.key === "/") { event.preventDefault(); ask(); } });
  // A link can search and zoom: graph.svg#find=name, graph.svg#zoom=name.
  const hash = decodeURIComponent(location.hash.slice(1));
  if (hash.startsWith("find=")) search(hash.slice(5));
  if (hash.startsWith("zoom=")) zoom(frames.find((frame) => frame.dataset.name === hash.slice(5)) ?? null);
})();
