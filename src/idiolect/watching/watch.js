// Asks how what is watched stands, again and again, and shows it. Every text from there goes in as text.
(() => {
  "use strict";
  const { painter, touch, config } = painting;
  const every = 2000, whenOver = 10000; // milliseconds
  const at = (name) => document.getElementById(name);
  const shown = new Map(); // by a figure's name: its parts
  let last = null;

  function made(tag, text, parent) {
    const found = document.createElement(tag);
    if (text !== undefined) found.textContent = text;
    if (parent) parent.append(found);
    return found;
  }

  function table({ title, columns, rows }) {
    const section = made("section");
    made("h2", title, section);
    const box = made("div", undefined, section);
    box.className = "table";
    const whole = made("table", undefined, box);
    const head = made("tr", undefined, made("thead", undefined, whole));
    for (const name of columns) made("th", name, head).scope = "col";
    const body = made("tbody", undefined, whole);
    for (const row of rows) {
      const line = made("tr", undefined, body);
      for (const entry of row) made("td", entry, line);
    }
    return section;
  }

  function frame(name) {
    const figure = made("figure", undefined, at("figures"));
    const parts = { figure, title: made("h3", "", figure), plot: made("div", undefined, figure), caption: made("figcaption", "", figure) };
    parts.plot.className = "plot";
    parts.plot.setAttribute("role", "group");
    shown.set(name, parts);
    return parts;
  }

  function draw({ name, title, caption, data, layout }) {
    const { title: heading, plot, caption: below } = shown.get(name) ?? frame(name);
    const paint = painter();
    heading.textContent = title;
    below.textContent = caption;
    plot.setAttribute("aria-label", title);
    const entries = data.filter((trace) => trace.showlegend !== false).length;
    const narrow = plot.clientWidth < 500 && entries > 4;
    const height = layout.height + (narrow ? 20 * (entries - 2) : 0); // there the legend is a column below
    plot.style.height = `${height}px`;
    const whole = { ...paint(layout), height, template: paint(TEMPLATE), autosize: true, uirevision: "same" };
    if (touch) whole.dragmode = false;
    Plotly.react(plot, paint(data), whole, config);
    plot.dataset.drawn = data.length;
  }

  function show(view) {
    const { title, state, status, notes, tables, figures } = view;
    if (title) {
      at("title").textContent = title;
      document.title = `${state}: ${title}`;
    }
    tell(state, status);
    at("notes").replaceChildren(...notes.map((note) => made("li", note)));
    if (!title) return; // nothing can be read now: what was shown stays
    at("tables").replaceChildren(...tables.map(table));
    const names = new Set(figures.map((figure) => figure.name));
    for (const [name, { figure }] of shown) {
      if (names.has(name)) continue;
      figure.remove();
      shown.delete(name);
    }
    figures.forEach(draw);
  }

  function tell(state, sentence) {
    if (at("state").textContent !== state) at("state").textContent = state;
    at("state").dataset.state = state;
    if (at("sentence").textContent !== sentence) at("sentence").textContent = sentence;
  }

  async function ask() {
    let wait = every;
    try {
      const answer = await fetch("/state.json", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      last = await answer.json();
      show(last);
      at("asked").textContent = `Last answer: ${new Date().toLocaleTimeString()}.`;
      if (last.over) wait = whenOver;
    } catch {
      tell("nobody answers", "`idiolect watch` has ended; what was seen last stays here");
    }
    setTimeout(ask, document.hidden ? Math.max(wait, whenOver) : wait);
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => last && last.figures.forEach(draw));
  ask();
})();
