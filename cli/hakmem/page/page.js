"use strict";
(() => {
  const of = (id) => document.getElementById(id);
  const sizeText = (bytes) => {
    if (bytes < 1024) return `${bytes} B`;
    if (bytes < 1023.5 * 2 ** 10) return `${Math.round(bytes / 2 ** 10)} KiB`;
    const [unit, one] = bytes < 1023.95 * 2 ** 20 ? ["MiB", 2 ** 20] : ["GiB", 2 ** 30];
    return `${(bytes / one).toFixed(bytes < 9.995 * one ? 2 : 1)} ${unit}`;
  };

  // ---- Tables: a click on a head sorts, largest first; another one turns it round.
  for (const head of document.querySelectorAll("th button")) {
    head.addEventListener("click", () => {
      const cell = head.closest("th"), table = cell.closest("table"), body = table.tBodies[0];
      const column = cell.cellIndex, up = cell.getAttribute("aria-sort") === "descending";
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => Number(row.cells[column].firstElementChild.dataset.value);
      body.append(...Array.from(body.rows).sort((a, b) => (up ? value(a) - value(b) : value(b) - value(a))));
    });
  }

  // ---- The time line: a cursor that the mouse or the arrow keys move.
  const course = JSON.parse(of("course").textContent), plot = of("plot"), cursor = of("cursor");
  if (plot) {
    const end = course[course.length - 1].seconds || 1;
    let now = course.length - 1;
    const show = (index) => {
      now = Math.max(0, Math.min(course.length - 1, index));
      const { seconds, resident, live, cached } = course[now];
      cursor.hidden = false;
      cursor.style.left = `${(100 * seconds) / end}%`;
      const told = live === null ? "" : `, live ${sizeText(live)}`;
      of("moment").textContent = `${seconds.toFixed(2)} s: resident ${sizeText(resident)}${told}, cached ${sizeText(cached)}`;
      plot.setAttribute("aria-valuenow", now);
      plot.setAttribute("aria-valuetext", of("moment").textContent);
    };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect(), seconds = ((event.clientX - box.left) / box.width) * end;
      let best = 0;
      course.forEach((one, i) => { if (Math.abs(one.seconds - seconds) < Math.abs(course[best].seconds - seconds)) best = i; });
      show(best);
    });
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity };
    plot.addEventListener("keydown", (event) => {
      if (!(event.key in steps)) return;
      event.preventDefault();
      show(now + steps[event.key]);
    });
  }

  // ---- The flame graph.
  const graph = of("flame-graph");
  if (graph) {
    const frames = Array.from(graph.children).map((button) => ({
      button, x: Number(button.dataset.x), w: Number(button.dataset.w), depth: Number(button.dataset.depth),
    }));
    const tiny = 1e-8, root = frames.find((one) => one.depth === 0);
    let focus = root;
    const covers = (outer, inner) => outer.x <= inner.x + tiny && outer.x + outer.w >= inner.x + inner.w - tiny;
    const shown = () => frames.filter((one) => !one.button.hidden);
    const zoom = (to) => {
      focus = to;
      for (const one of frames) {
        const above = one.depth < to.depth && covers(one, to), within = one.depth >= to.depth && covers(to, one);
        one.button.hidden = !above && !within;
        one.button.classList.toggle("above", above);
        one.button.style.left = `${above ? 0 : (100 * (one.x - to.x)) / to.w}%`;
        one.button.style.width = `${above ? 100 : (100 * one.w) / to.w}%`;
      }
      reach(to);
    };
    const reach = (to) => { for (const one of frames) one.button.tabIndex = one === to ? 0 : -1; };
    const parent = (of) => frames.find((one) => one.depth === of.depth - 1 && covers(one, of));
    const moves = {
      ArrowUp: (from) => parent(from),
      ArrowDown: (from) => shown().filter((one) => one.depth === from.depth + 1 && covers(from, one)).sort((a, b) => b.w - a.w)[0],
      ArrowRight: (from) => shown().filter((one) => one.depth === from.depth && one.x > from.x + tiny).sort((a, b) => a.x - b.x)[0],
      ArrowLeft: (from) => shown().filter((one) => one.depth === from.depth && one.x < from.x - tiny).sort((a, b) => b.x - a.x)[0],
    };
    graph.addEventListener("click", (event) => {
      const hit = frames.find((one) => one.button === event.target);
      if (hit) zoom(hit === focus ? root : hit);
    });
    graph.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { zoom(root); root.button.focus(); return; }
      const from = frames.find((one) => one.button === event.target), move = moves[event.key];
      if (!from || !move) return;
      event.preventDefault();
      const to = move(from);
      if (to) { reach(to); to.button.focus(); }
    });
    of("flame-reset").addEventListener("click", () => zoom(root));
    of("flame-search").addEventListener("input", (event) => {
      const words = event.target.value.toLowerCase();
      let share = 0, reached = -1;
      const found = frames.filter((one) => {
        const hit = words !== "" && one.button.dataset.name.toLowerCase().includes(words);
        one.button.classList.toggle("found", hit);
        return hit;
      });
      // A match inside another match counts once.
      for (const { x, w } of found.sort((a, b) => a.x - b.x || b.w - a.w)) {
        if (x + w > reached + tiny) { share += x + w - Math.max(x, reached); reached = x + w; }
      }
      of("flame-status").textContent = words ? `${found.length} found, ${(100 * share).toFixed(1)}%` : "";
    });
  }

  // ---- The map.
  const tiles = of("tiles");
  if (tiles) {
    const all = Array.from(tiles.children);
    const choose = (index) => {
      const chosen = Math.max(0, Math.min(all.length - 1, index));
      all.forEach((tile, i) => {
        tile.tabIndex = i === chosen ? 0 : -1;
        tile.setAttribute("aria-selected", i === chosen);
      });
      all[chosen].focus();
      of("tile-readout").textContent = all[chosen].getAttribute("aria-label");
    };
    const perRow = () => Math.max(1, all.filter((tile) => tile.offsetTop === all[0].offsetTop).length);
    tiles.addEventListener("click", (event) => {
      const tile = event.target.closest(".tile");
      if (tile) choose(all.indexOf(tile));
    });
    tiles.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -perRow(), ArrowDown: perRow(), Home: -Infinity, End: Infinity };
      if (!(event.key in steps)) return;
      event.preventDefault();
      choose(all.indexOf(document.activeElement) + steps[event.key]);
    });
  }

  // ---- A link to a part opens it, and paper shows all.
  const open = () => { const part = of(decodeURIComponent(location.hash.slice(1))); if (part instanceof HTMLDetailsElement) part.open = true; };
  addEventListener("hashchange", open);
  open();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = Array.from(document.querySelectorAll("details:not([open])"));
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
})();
