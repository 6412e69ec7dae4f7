"use strict";
// Draws the plots of the page from the document embedded in it. Names from the document reach the
// page as text only, never as markup.
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const doc = JSON.parse(byId("data").textContent);
  // A colour of the style sheet as the canvas understands it: resolved for the theme in force.
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const chips = [...document.querySelectorAll(".legend button[data-series]")];
  const hidden = new Set();
  let charts = [];

  // One x axis for all: every load that any series was offered, in kpps.
  const xs = [...new Set(doc.series.flatMap((s) => s.points.map((p) => p.offered_pps / 1e3)))].sort((a, b) => a - b);
  const xMax = xs.at(-1) || 1;
  const column = (points, value) => {
    const at = new Map(points.map((p) => [p.offered_pps / 1e3, value(p)]));
    return xs.map((x) => at.get(x) ?? null);
  };

  const round = (v) => {
    if (v === 0) return "0";
    const size = Math.abs(v);
    return size >= 100 ? v.toFixed(0) : size >= 10 ? v.toFixed(1) : size >= 0.1 ? v.toFixed(2) : v.toPrecision(2);
  };

  // Mark, dash and colour of a series are those of its swatch in the legend.
  const swatch = (i) => chips[i].querySelector("svg").cloneNode(true);
  const style = (i) => {
    const [line, mark] = chips[i].querySelectorAll("path");
    const dash = (line.getAttribute("stroke-dasharray") || "").split(" ").filter(Boolean).map(Number);
    return { stroke: colour(`--s${i % 8}`), dash, mark: new Path2D(mark.getAttribute("d")), hollow: mark.hasAttribute("data-hollow") };
  };

  const drawMark = (u, x, y, s) => {
    const { ctx } = u;
    ctx.save();
    ctx.translate(x, y);
    ctx.scale(devicePixelRatio, devicePixelRatio);
    ctx.fillStyle = s.hollow ? colour("--card") : s.stroke;
    ctx.strokeStyle = s.stroke;
    ctx.lineWidth = 1.6;
    ctx.setLineDash([]);
    ctx.fill(s.mark);
    ctx.stroke(s.mark);
    ctx.restore();
  };

  // Shows every value under the cursor; rows(idx) gives [swatch, name, text, order].
  const tooltip = (rows) => {
    let tip;
    const hide = () => { if (tip) tip.hidden = true; };
    return {
      hooks: {
        init: (u) => {
          tip = document.createElement("div");
          tip.className = "tip";
          tip.hidden = true;
          u.over.append(tip);
          u.over.addEventListener("mouseleave", hide);
        },
        setCursor: (u) => {
          const { left, top, idx, event } = u.cursor;
          // Plots that only follow the cursor of another one show no tip of their own.
          const own = u.keyed || (event && event.currentTarget === u.over) || u.over.matches(":hover");
          if (idx == null || left < 0 || !own) return hide();
          const title = document.createElement("b");
          title.textContent = `${round(u.data[0][idx])} kpps offered`;
          const lines = rows(idx).map(([icon, name, text]) => {
            const line = document.createElement("div");
            const value = document.createElement("span");
            value.className = "value";
            value.textContent = text;
            line.append(icon, name, value);
            return line;
          });
          tip.replaceChildren(title, ...lines);
          tip.hidden = false;
          const { width, height } = u.over.getBoundingClientRect();
          const x = left > width / 2 ? left - tip.offsetWidth - 14 : left + 14;
          const least = Math.min(0, width - tip.offsetWidth);
          tip.style.left = `${Math.max(least, Math.min(x, width - tip.offsetWidth))}px`;
          tip.style.top = `${Math.max(0, Math.min(top - tip.offsetHeight / 2, height - tip.offsetHeight))}px`;
        },
      },
    };
  };

  const axis = (more) => ({
    stroke: colour("--soft"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
    ...more,
    grid: { stroke: colour("--grid"), width: 1, ...more.grid },
    ticks: { stroke: colour("--line"), width: 1, size: 5, ...more.ticks },
  });

  const number = (u, ticks) => ticks.map((t) => (t == null ? "" : String(+t.toPrecision(6))));

  // Axes that span decades, the second one from zero on. Only decades have a line and a number.
  const decades = (u, ticks) => ticks.map((t) => (t === 0 || (t > 0 && Number.isInteger(+Math.log10(t).toFixed(6))) ? t : null));
  const log = {
    scale: { distr: 3, range: (u, low, high) => [10 ** Math.floor(Math.log10(low || 1)), 10 ** Math.ceil(Math.log10((high || 9) * 1.01))] },
    y: { filter: decades, grid: { filter: decades }, ticks: { show: false } },
  };
  const zeroAndLog = { ...log, scale: { distr: 4, asinh: 0.02, range: (u, low, high) => [0, Math.max(high || 0, 1) * 1.3] } };

  const make = (id, data, options) => {
    const host = byId(id);
    const size = () => ({ width: host.clientWidth, height: host.clientHeight });
    const all = {
      ...size(), legend: { show: false }, padding: [10, 14, 0, 0],
      cursor: { sync: { key: "offered" }, y: false, drag: { x: false, y: false }, points: { size: 7 } },
      axes: [
        axis({ label: "offered, kpps", labelSize: 20, size: 34, values: (u, ticks) => ticks.map(String) }),
        axis({ size: (u, texts) => 14 + 7.5 * Math.max(3, ...(texts || []).map((t) => t.length)), values: number, ...options.y }),
      ],
      ...options,
      scales: { x: { time: false, range: [0, xMax] }, y: options.scale },
    };
    const u = new uPlot(all, data, host);
    const watch = new ResizeObserver(() => u.setSize(size()));
    watch.observe(host);
    // Arrow keys walk from load to load.
    const key = (e) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!step) return;
      e.preventDefault();
      const last = u.data[0].length - 1;
      const idx = u.cursor.idx == null ? 0 : Math.max(0, Math.min(last, u.cursor.idx + step));
      u.keyed = true;
      u.setCursor({ left: u.valToPos(u.data[0][idx], "x"), top: u.over.clientHeight / 2 });
      u.keyed = false;
    };
    const leave = () => u.setCursor({ left: -10, top: -10 });
    host.addEventListener("keydown", key);
    host.addEventListener("blur", leave);
    const drop = () => {
      watch.disconnect();
      host.removeEventListener("keydown", key);
      host.removeEventListener("blur", leave);
      u.destroy();
    };
    charts.push({ u, lines: Boolean(options.lines), drop });
  };

  // The range of each series' error bars, as an area behind its line.
  const areas = (u, range) => {
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    ctx.globalAlpha = 0.18;
    doc.series.forEach((s, i) => {
      const points = s.points.filter((p) => range(p));
      if (hidden.has(i)) return;
      const at = (end) => (p) => [u.valToPos(p.offered_pps / 1e3, "x", true), u.valToPos(range(p)[end], "y", true)];
      ctx.fillStyle = style(i).stroke;
      ctx.beginPath();
      [...points.map(at(0)), ...points.reverse().map(at(1))].forEach(([x, y], k) => (k ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
      ctx.fill();
      if (points.length > 1) return;
      // A point alone has no area: a line, as wide as its mark.
      ctx.strokeStyle = ctx.fillStyle;
      ctx.lineWidth = 9 * devicePixelRatio;
      ctx.stroke();
    });
    ctx.restore();
  };

  // A line for each series, where there is a place for it.
  const lines = (id, value, unit, { scale, y, under }) => {
    if (!byId(id)) return;
    const styles = doc.series.map((_, i) => style(i));
    const data = [xs, ...doc.series.map((s) => column(s.points, value))];
    const peaks = data.slice(1).map((values) => values.findIndex((v) => v != null && v >= 0.999 * Math.max(...values)));
    const rows = (idx) => data.slice(1)
      .map((values, i) => [i, values[idx]])
      .filter(([i, v]) => v != null && !hidden.has(i))
      .sort((a, b) => b[1] - a[1])
      .map(([i, v]) => [swatch(i), doc.series[i].name, `${round(v)}${unit}`]);
    make(id, data, {
      lines: true, scale, y,
      series: [{}, ...styles.map((s, i) => ({
        label: doc.series[i].name, stroke: s.stroke, width: 2, dash: s.dash, spanGaps: true, show: !hidden.has(i), points: { show: false },
      }))],
      plugins: [tooltip(rows)],
      hooks: {
        drawAxes: under ? [under] : [],
        draw: [(u) => xs.forEach((x, j) => {
          const at = new Map();
          const px = (k) => u.valToPos(xs[k], "x", true);
          data.slice(1).forEach((values, i) => {
            const v = values[j];
            if (v == null || hidden.has(i) || v > u.scales.y.max || v < u.scales.y.min) return;
            const y = u.valToPos(v, "y", true);
            const place = [...at.keys()].find((other) => Math.abs(other - y) < 4 * devicePixelRatio) ?? y;
            at.set(place, [...(at.get(place) || []), i]);
          });
          // Marks that would cover each other stand side by side, each on its own line, as far as there is
          // room; the others take turns from load to load.
          const near = Math.min(j > 0 ? px(j) - px(j - 1) : Infinity, j + 1 < xs.length ? px(j + 1) - px(j) : Infinity);
          const each = 9 * devicePixelRatio;
          at.forEach((these, y) => {
            // A peak is worth more than its turn.
            const turns = these.map((_, k) => these[(j + k) % these.length]).sort((a, b) => (peaks[b] === j) - (peaks[a] === j));
            const shown = Math.min(these.length, Math.max(1, Math.floor(near / 2 / each)));
            for (let k = 0; k < shown; k++) {
              const i = turns[k];
              const aside = (k - (shown - 1) / 2) * each;
              // The nearest point on that side, or on the other one at an end of the line.
              const next = [j + Math.sign(aside), j - Math.sign(aside)].find((n) => n !== j && data[i + 1][n] != null);
              const down = next === undefined ? 0 : ((u.valToPos(data[i + 1][next], "y", true) - y) / (px(next) - px(j))) * aside;
              drawMark(u, px(j) + aside, y + (Math.abs(down) < each ? down : 0), styles[i]);
            }
          });
        })],
      },
    });
  };

  const fromZero = { range: (u, low, high) => [0, (high > 0 ? high : 1) * 1.1] };

  // The line on which everything offered is delivered.
  const ideal = (u) => {
    const { ctx } = u;
    const end = Math.min(u.scales.x.max, u.scales.y.max);
    const [x, y] = [u.valToPos(end, "x", true), u.valToPos(end, "y", true)];
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--soft");
    ctx.globalAlpha = 0.8;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(u.valToPos(0, "x", true), u.valToPos(0, "y", true));
    ctx.lineTo(x, y);
    ctx.stroke();
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    const right = end < u.scales.x.max * 0.8;
    ctx.textAlign = right ? "left" : "right";
    ctx.textBaseline = "top";
    ctx.fillText("everything delivered", x + (right ? 8 : -30) * devicePixelRatio, y + 2 * devicePixelRatio);
    ctx.restore();
  };

  // Where the frames of one series end, stacked up to what was offered.
  const losses = (l) => {
    const sum = (o) => Object.values(o).reduce((a, b) => a + b, 0);
    const missing = l.sent - l.delivered - sum(l.dropped) - l.in_flight;
    return { ...l.dropped, shortfall: l.shortfall, unexplained: Math.max(0, missing) };
  };
  const places = [...new Set(doc.series.flatMap((s) => s.points.flatMap((p) => Object.keys(losses(p.ledger)))))].sort();
  // What is known of places, as the page has it from the report.
  const words = new Map(Object.entries(JSON.parse(byId("words").textContent)));
  const box = (fill) => {
    const it = document.createElement("span");
    it.className = "box";
    it.style.background = fill;
    return it;
  };
  // Layers of one series stacked on each other; `of` gives a layer's height in a point. Layers that are
  // nowhere above 0 are left out.
  const stack = (id, points, all, unit, scale) => {
    if (!byId(id)) return;
    const layers = all.filter((layer) => points.some((p) => layer.of(p) > 0));
    const raw = layers.map((layer) => points.map(layer.of));
    const stacked = raw.map((_, k) => points.map((_, j) => raw.slice(0, k + 1).reduce((s, r) => s + r[j], 0)));
    const rows = (idx) => layers.map((layer, k) => [box(layer.fill), layer.name, `${round(raw[k][idx])}${unit}`]).reverse();
    make(id, [points.map((p) => p.offered_pps / 1e3), ...stacked], {
      scale,
      series: [{}, ...layers.map((layer, k) => ({
        stroke: colour("--card"), width: 1, fill: k === 0 ? layer.fill : undefined, points: { show: false },
      }))],
      bands: layers.slice(1).map((layer, k) => ({ series: [k + 2, k + 1], fill: layer.fill })),
      cursor: { sync: { key: "offered" }, y: false, drag: { x: false, y: false }, points: { show: false } },
      plugins: [tooltip(rows)],
    });
    byId(`${id}-layers`).replaceChildren(...layers.map((layer) => {
      const item = document.createElement("li");
      const name = document.createElement("b");
      name.textContent = layer.name;
      item.append(box(layer.fill), name);
      if (layer.words) {
        const words = document.createElement("span");
        words.textContent = layer.words;
        item.append(words);
      }
      return item;
    }).reverse());
  };

  const detail = () => {
    const { points } = doc.series[Number(document.querySelector("input[name=preset]:checked").value)];
    const inPercent = document.querySelector("input[name=unit]:checked").value === "%";
    const share = (p, n) => (n / Math.max(1, p.ledger.sent + p.ledger.shortfall)) * (inPercent ? 100 : p.offered_pps / 1e3);
    stack("ledger", points, [
      { name: "delivered", fill: colour("--ok"), of: (p) => share(p, p.ledger.delivered) },
      { name: "in flight at the end", fill: colour("--flight"), of: (p) => share(p, p.ledger.in_flight) },
      ...places.map((name, i) => ({
        name, words: words.get(name), fill: colour(`--p${i % 8}`), of: (p) => share(p, losses(p.ledger)[name] || 0),
      })),
    ], inPercent ? " %" : " kpps", inPercent ? { range: [0, 100] } : fromZero);
    const cpu = (p, kind) => ((p.cpu && p.cpu[kind]) || 0) * 100;
    stack("kinds", points, [
      { name: "hardirq", words: "interrupt handlers", fill: colour("--k0"), of: (p) => cpu(p, "hardirq") },
      { name: "softirq", words: "softirqs and bottom halves", fill: colour("--k1"), of: (p) => cpu(p, "softirq") },
      { name: "thread", words: "threads, the application among them", fill: colour("--k2"), of: (p) => cpu(p, "thread") },
      { name: "idle polls", words: "found nothing: free for other work", fill: colour("--k3"), of: (p) => cpu(p, "idle_polls") },
    ], " %", { range: [0, 100] });
  };

  // A quantity that nobody observed has no mark.
  const times = (value, factor) => (value == null ? null : value * factor);

  const draw = () => {
    charts.forEach((chart) => chart.drop());
    charts = [];
    if (!xs.length) return;
    const percentile = document.querySelector("input[name=percentile]:checked")?.value;
    const range = (p) => p.delivered_pps_p95 != null && [p.delivered_pps_p5 / 1e3, p.delivered_pps_p95 / 1e3];
    const highest = () => Math.max(0, ...doc.series.flatMap((s, i) => (hidden.has(i) ? [] : s.points.map((p) => (range(p) || [0, 0])[1]))));
    lines("delivered", (p) => p.delivered_pps / 1e3, " kpps", {
      scale: { range: (u, low, high) => fromZero.range(u, low, Math.max(high || 0, highest())) },
      under: (u) => { areas(u, range); ideal(u); },
    });
    detail();
    lines("cpu", (p) => times(p.cpu_busy, 100), " %", { scale: { range: [0, 104] } });
    lines("bus", (p) => times(p.bus_busy, 100), " %", { scale: { range: [0, 104] } });
    lines("interrupts", (p) => times(p.interrupts_per_s, 1e-3), " k/s", { scale: fromZero });
    lines("latency", (p) => (p.latency_ns[percentile] > 0 ? p.latency_ns[percentile] / 1e3 : null), " µs", log);
    lines("reads", (p) => p.registers_per_frame?.read, "", zeroAndLog);
    lines("writes", (p) => p.registers_per_frame?.write, "", zeroAndLog);
    lines("allocations", (p) => p.allocations_per_frame, "", zeroAndLog);
  };

  chips.forEach((chip, i) => chip.addEventListener("click", () => {
    if (!hidden.delete(i)) hidden.add(i);
    chip.setAttribute("aria-pressed", String(!hidden.has(i)));
    charts.forEach(({ u, lines }) => { if (lines) u.setSeries(i + 1, { show: !hidden.has(i) }); });
  }));
  document.querySelectorAll(".choice input").forEach((input) => input.addEventListener("change", draw));

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (name) => {
    root.dataset.theme = name;
    byId("theme").textContent = name === "dark" ? "Light" : "Dark";
    draw();
  };
  byId("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
  dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
  byId("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([byId("data").textContent], { type: "application/json" }));
    link.download = "kpps.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  theme(dark.matches ? "dark" : "light");
})();
