// Colours of figures are names of the page's: what they are now, and where in a figure they stand.
const painting = (() => {
  "use strict";
  const isName = (value) => typeof value === "string" && value.startsWith("var(--");
  const isObject = (value) => value !== null && typeof value === "object";

  function painter() {
    const style = getComputedStyle(document.documentElement);
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

  // On a touch screen a drag scrolls the page; the buttons zoom instead.
  const touch = matchMedia("(pointer: coarse)").matches;
  const config = {
    responsive: true, displaylogo: false, displayModeBar: touch ? true : "hover",
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  return { painter, named, touch, config };
})();
