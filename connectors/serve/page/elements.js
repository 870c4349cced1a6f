// Elements. What a server says becomes text, never HTML: nothing here takes markup.

const byId = (id) => document.getElementById(id);

function make(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function say(id, text) {
  byId(id).textContent = text;
}

function emptyState(text, ...children) {
  return make("div", { class: "empty" }, make("p", null, text), ...children);
}

// Put a new table in the place of the last one: whoever scrolls in it stays where they are.
function showTable(box, table, ...after) {
  const last = box.querySelector(".scroll");
  const next = table.classList.contains("scroll") ? table : table.querySelector(".scroll");
  if (!last) return box.replaceChildren(table, ...after);
  const { scrollLeft, scrollTop } = last;
  last.replaceChildren(...next.childNodes);
  next.replaceWith(last);
  if (next === table) box.replaceChildren(last, ...after);
  else box.replaceChildren(table, ...after);
  Object.assign(last, { scrollLeft, scrollTop });
}

// A list of tabs: the arrow keys move, one is selected.
function asTabs(ids, onSelect) {
  const select = (id, moves) => {
    for (const other of ids) {
      const tab = byId(other);
      tab.setAttribute("aria-selected", String(other === id));
      tab.tabIndex = other === id ? 0 : -1;
    }
    if (moves) byId(id).focus();
    onSelect(id);
  };
  for (const id of ids) {
    byId(id).addEventListener("click", () => select(id));
    byId(id).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const shown = ids.filter((other) => !byId(other).hidden);
      const at = shown.indexOf(id) + step + shown.length;
      select(shown[at % shown.length], true);
    });
  }
  return select;
}

// --- what the browser keeps; it may be told to keep nothing ---------------------------------------

function kept(name, fallback) {
  try {
    const text = localStorage.getItem(name);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // It goes on without.
  }
}

// --- values for people --------------------------------------------------------------------------

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const ISO = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/;

const isTime = (value) => typeof value === "string" && ISO.test(value);
const isNumber = (value) => typeof value === "number" || typeof value === "bigint";

function plural(count, noun) {
  return `${WHOLE.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function bytesText(bytes) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let at = 0;
  while (value >= 1024 && at < names.length - 1) [value, at] = [value / 1024, at + 1];
  return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${names[at]}`;
}

function secondsText(seconds) {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

// A time as a table shows it: a blank for the T, milliseconds at most, UTC as everywhere.
function timeText(iso) {
  return iso.replace("T", " ").replace(/(\.\d{3})\d+/, "$1").replace(/Z$/, "");
}

function valueText(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "object") return jsonText(value);
  return isTime(value) ? timeText(value) : String(value);
}

// JSON with integers of 64 bits as they came.
function jsonText(value, indent = "") {
  if (typeof value === "bigint") return String(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    return `[\n${value.map((one) => inner + jsonText(one, inner)).join(",\n")}\n${indent}]`;
  }
  const members = Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${jsonText(one, inner)}`);
  return members.length ? `{\n${inner}${members.join(`,\n${inner}`)}\n${indent}}` : "{}";
}
