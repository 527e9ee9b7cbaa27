// Draws the page's figures when they come near the window, and keeps their colours those of the page.
(() => {
  "use strict";
  const root = document.documentElement;
  const { painter, named, touch, config } = painting;
  const template = JSON.parse(document.getElementById("template").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  let figures = {}; // by the name of each
  const paper = 680; // pixels that fit on a printed page

  function draw(plot) {
    if (plot.drawing) return;
    const { data, layout, choices } = figures[plot.parentElement.id];
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

  // A large text, five characters for four bytes, as packed_texts.py writes it.
  async function unpacked(element) {
    const text = element.textContent;
    const value = new Uint8Array(128);
    [...element.dataset.alphabet].forEach((sign, k) => { value[sign.charCodeAt(0)] = k; });
    const bytes = new DataView(new ArrayBuffer(((text.length - 1) / 5) * 4));
    for (let read = 1, written = 0; read < text.length; read += 5, written += 4) {
      let word = 0;
      for (let k = 0; k < 5; k++) word = word * 85 + value[text.charCodeAt(read + k)];
      bytes.setUint32(written, word);
    }
    const data = bytes.buffer.slice(0, bytes.byteLength - Number(text[0]));
    return new Response(new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
  }

  function sayWhy() {
    const words = document.createElement("p");
    words.textContent = "This browser cannot unpack the figures; one from 2023 or later can.";
    document.querySelector("main").prepend(words);
  }

  async function begin() {
    figures = JSON.parse(await unpacked(document.getElementById("figures")));
    const script = document.createElement("script");
    script.textContent = await unpacked(document.getElementById("plotly"));
    document.head.append(script);
    plots.forEach((plot) => near.observe(plot));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(repaint));
    addEventListener("beforeprint", ontoPaper);
    addEventListener("afterprint", ontoScreen);
    document.querySelectorAll(".save button").forEach((button) => button.addEventListener("click", () => {
      const plot = button.closest("figure").querySelector(".plot");
      draw(plot);
      savePlot(plot, button.textContent);
    }));
  }
  begin().catch(sayWhy);
})();
