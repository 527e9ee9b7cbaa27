// Draws the page's figures when they come near the window, and keeps their colours those of the page.
(() => {
  "use strict";
  const root = document.documentElement;
  const touch = matchMedia("(pointer: coarse)").matches;
  const template = JSON.parse(document.getElementById("template").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const paper = 680; // pixels that fit on a printed page
  // On a touch screen a drag scrolls the page; the buttons zoom instead.
  const config = {
    responsive: true, displaylogo: false, displayModeBar: touch ? true : "hover",
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };

  const isName = (value) => typeof value === "string" && value.startsWith("var(--");
  const isObject = (value) => value !== null && typeof value === "object";

  function painter() {
    const style = getComputedStyle(root);
    return function paint(value) {
      if (isName(value)) return style.getPropertyValue(value.slice(4, -1)).trim();
      if (Array.isArray(value)) return value.map(paint);
      if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, paint(inner)]));
      return value;
    };
  }

  // Where colours are named: [path, value] pairs, the paths as plotly writes them.
  function named(value, path = "") {
    if (isName(value) || (Array.isArray(value) && value.some(isName))) return [[path, value]];
    if (Array.isArray(value)) return value.flatMap((inner, k) => (isObject(inner) ? named(inner, `${path}[${k}]`) : []));
    if (!isObject(value)) return [];
    return Object.entries(value).flatMap(([key, inner]) => named(inner, path ? `${path}.${key}` : key));
  }

  function draw(plot) {
    if (plot.drawing) return;
    const { data, layout, choices } = JSON.parse(plot.nextElementSibling.textContent);
    plot.drawing = { data, layout, choices };
    const paint = painter();
    const all = { ...paint(layout), template: paint(template), autosize: true };
    if (touch && !("dragmode" in all)) all.dragmode = false;
    const entries = data.filter((trace) => trace.showlegend !== false && trace.visible !== false).length;
    if (plot.clientWidth < 500 && all.showlegend !== false && entries > 4) {
      all.height += 20 * (entries - 2); // where the legend is a column below the picture, it needs room of its own
      plot.style.height = `${all.height}px`;
    }
    Plotly.newPlot(plot, paint(data), all, config);
    plot.dataset.drawn = plot.data.length;
    for (const button of plot.parentElement.querySelectorAll(".switch input")) {
      button.addEventListener("change", () => choose(plot, choices[Number(button.value)]));
    }
  }

  function choose(plot, choice) {
    const paint = painter();
    Plotly.update(plot, paint(choice.data), paint(choice.layout));
  }

  function repaint(plot) {
    if (!plot.drawing) return;
    const paint = painter();
    const traces = {};
    plot.drawing.data.forEach((trace, k) => {
      for (const [path, value] of named(trace)) {
        traces[path] ??= Array(plot.drawing.data.length).fill(undefined);
        traces[path][k] = paint(value);
      }
    });
    const layout = Object.fromEntries(named(plot.drawing.layout).map(([path, value]) => [path, paint(value)]));
    Plotly.update(plot, traces, { ...layout, template: paint(template) });
  }

  function ontoPaper() {
    root.dataset.paper = "";
    plots.forEach(draw);
    plots.forEach(repaint);
    plots.forEach((plot) => Plotly.relayout(plot, { width: Math.min(paper, plot.clientWidth), autosize: false }));
  }

  function ontoScreen() {
    delete root.dataset.paper;
    plots.forEach(repaint);
    plots.forEach((plot) => plot.drawing && Plotly.relayout(plot, { width: null, autosize: true }));
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "400px" });
  plots.forEach((plot) => near.observe(plot));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(repaint));
  addEventListener("beforeprint", ontoPaper);
  addEventListener("afterprint", ontoScreen);
})();
