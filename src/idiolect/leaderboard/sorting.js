// A click on a head sorts its table: numbers from the largest, words from A; a second click the other way.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    const rows = [...body.rows], cell = (row) => row.cells[place];
    const numbers = rows.some((row) => cell(row).dataset.value !== undefined);
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numbers;
    const value = (row) => numbers ? Number(cell(row).dataset.value ?? -Infinity) : cell(row).textContent;
    const order = (a, b) => numbers ? value(a) - value(b) : value(a).localeCompare(value(b));
    rows.sort((a, b) => down ? order(b, a) : order(a, b));
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows);
  }));
}
