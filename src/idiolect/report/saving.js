// Saves a figure as a picture, or what is shown in it as a table.
"use strict";

function savePlot(plot, kind) {
  const title = plot.getAttribute("aria-label");
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "figure";
  if (kind === "CSV") return saveText(`${name}.csv`, tableOf(plot.data));
  const card = getComputedStyle(document.documentElement).getPropertyValue("--card").trim();
  const layout = {
    ...plot.layout, title: { text: title, x: 0.02 }, paper_bgcolor: card,
    margin: { ...plot.layout.margin, l: 60, r: 20, t: 55, b: 50 },
  };
  const size = { width: Math.max(700, plot.clientWidth), height: plot.clientHeight + 30 };
  const scale = kind === "PNG" ? 2 : 1;
  return Plotly.downloadImage({ data: plot.data, layout }, { format: kind.toLowerCase(), filename: name, scale, ...size });
}

// A row for every point of the traces that are shown; of a map, for every cell.
function tableOf(traces) {
  const shown = traces.filter((trace) => trace.visible !== false && trace.visible !== "legendonly");
  const rows = [["trace", "x", "y", ...(shown.some((trace) => trace.z) ? ["value"] : [])]];
  for (const trace of shown) {
    if (trace.z) {
      trace.z.forEach((line, i) => line.forEach((value, j) => {
        rows.push([trace.name ?? "", trace.x?.[j] ?? j, trace.y?.[i] ?? i, value]);
      }));
      continue;
    }
    const count = Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0);
    for (let k = 0; k < count; k++) rows.push([trace.name ?? "", trace.x?.[k] ?? "", trace.y?.[k] ?? ""]);
  }
  return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

function quoted(value) {
  const text = value === null ? "" : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveText(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

