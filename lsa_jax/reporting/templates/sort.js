// A click on a column's head sorts its table by it: numbers as numbers, empty cells last.
document.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending";
  head.parentNode.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = (row) => row.cells[head.cellIndex].dataset.value ?? row.cells[head.cellIndex].innerText.trim();
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const order = isNaN(a) || isNaN(b) ? a.localeCompare(b, undefined, {numeric: true}) : a - b;
    return up ? order : -order;
  };
  [...body.rows].sort((a, b) => compare(value(a), value(b))).forEach((row) => body.append(row));
}));
