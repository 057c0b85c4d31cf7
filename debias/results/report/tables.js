"use strict";
// The tables of a page: a press on a heading sorts the rows, and a field above long tables filters them. Without this
// script the tables are complete, in the order of the page.
const FEW_ROWS = 12; // Shorter tables need no filter.

for (const table of document.querySelectorAll(".debias .scroll table")) {
  const body = table.tBodies[0];
  const inOrder = [...body.rows];
  if (inOrder.length > 1) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => makeSortable(heading, column, body, inOrder));
  }
  if (inOrder.length > FEW_ROWS) makeFilter(table, inOrder);
}

function makeSortable(heading, column, body, inOrder) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  heading.append(button);
  button.addEventListener("click", () => {
    const texts = inOrder.map((row) => row.cells[column].textContent.trim());
    const numbers = texts.map(numberOf);
    const known = texts.map((text) => /[\p{L}\p{N}]/u.test(text));
    const isNumeric = numbers.every((number, k) => !known[k] || !Number.isNaN(number));
    // Numbers begin with the largest and words with the first; a third press brings the order of the page back.
    const [first, second] = isNumeric ? ["descending", "ascending"] : ["ascending", "descending"];
    const next = { [first]: second, [second]: "none" }[heading.ariaSort] ?? first;
    for (const each of heading.parentElement.cells) each.removeAttribute("aria-sort");
    if (next === "none") return body.append(...inOrder);
    heading.ariaSort = next;
    const sign = next === "ascending" ? 1 : -1;
    const order = inOrder.map((_, k) => k).sort((one, other) => {
      if (known[one] !== known[other]) return known[one] ? -1 : 1; // What is not known is last in both directions.
      const words = texts[one].localeCompare(texts[other], undefined, { numeric: true });
      return sign * ((isNumeric && known[one] ? numbers[one] - numbers[other] : words) || 0) || one - other;
    });
    body.append(...order.map((k) => inOrder[k]));
  });
}

function numberOf(text) {
  const match = /^([<>]?)\s*([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*%?(?:\s+to\s+.*)?$/i.exec(text);
  if (match === null) return NaN;
  const nearly = { "<": -1e-9, ">": 1e-9 }[match[1]] ?? 0;
  return Number(match[2].replaceAll(",", "")) + nearly;
}

function makeFilter(table, inOrder) {
  const label = document.createElement("label");
  const field = document.createElement("input");
  const shown = document.createElement("output");
  field.type = "search";
  label.className = "filter";
  label.append("Show rows with ", field, " ", shown);
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    for (const row of inOrder) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    const left = inOrder.filter((row) => !row.hidden).length;
    shown.value = wanted ? `${left} of ${inOrder.length}` : "";
  });
  table.closest(".scroll").before(label);
}
