"use strict";
(function () {
  const table = document.querySelector("#comparison table");
  if (!table) return;
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);

  function value(row, column) {
    const text = row.cells[column].firstElementChild.dataset.order;
    return text === "" ? null : isNaN(Number(text)) ? text : Number(text);
  }

  function compare(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function sort(column) {
    const head = heads[column];
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = Array.from(body.rows).map((row) => [value(row, column), row]);
    const empty = rows.filter(([key]) => key === null);
    const full = rows.filter(([key]) => key !== null).sort((a, b) => compare(a[0], b[0]));
    if (down) full.reverse();
    full.concat(empty).forEach(([, row]) => body.appendChild(row));
  }

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(column));
    head.replaceChildren(button);
  });
})();
