// A table of rows, some hundreds at a time.

const ROWS_SHOWN = 500;
const LONG = 400;

function columnsOf(rows) {
  const columns = new Set();
  for (const row of rows.slice(0, 200)) for (const name of Object.keys(row)) columns.add(name);
  return [...columns];
}

function tableOf(rows, label, isWhole) {
  const columns = columnsOf(rows);
  const numbers = new Set(columns.filter((name) => rows.slice(0, 200).some((row) => isNumber(row[name]))));
  const head = columns.map((name) => make("th", { scope: "col", class: numbers.has(name) && "right" }, name));
  const body = make("tbody");
  const table = make("table", null, make("thead", null, make("tr", null, ...head)), body);
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  const box = make("div", null, scroll);
  let shown = 0;
  const more = make("button", { type: "button", class: "more", onclick: () => add() });
  function add() {
    const next = rows.slice(shown, shown + ROWS_SHOWN);
    body.append(...next.map((row) => rowOf(row, columns, numbers, isWhole)));
    shown += next.length;
    more.remove();
    if (shown < rows.length) {
      more.textContent = `Show more: ${WHOLE.format(shown)} of ${WHOLE.format(rows.length)} rows are shown`;
      box.append(more);
    }
  }
  add();
  return box;
}

function rowOf(row, columns, numbers, isWhole) {
  return make("tr", null, ...columns.map((name) => {
    const value = row[name];
    const text = valueText(value);
    const names = [
      numbers.has(name) && "right",
      (value === null || value === undefined) && "null",
      isWhole && "whole",
    ].filter(Boolean).join(" ");
    const isMore = text.length > 40 || isTime(value);
    return make(
      "td",
      { class: names || null, title: isMore ? (isTime(value) ? value : text.slice(0, 2000)) : null },
      text.length > LONG && !isWhole ? `${text.slice(0, LONG)}…` : text,
    );
  }));
}
