// The editor: a text area over its own painted text, with completions and history.

const HISTORY = "shardlog-history";
const HISTORY_MAX = 100;
// What is longer is a file of somebody: it has no colours, and is not kept.
const PAINTED_MAX = 50000;

const editor = { wrong: null, offers: [], chosen: 0, isChosen: false, from: 0, back: -1, draft: "" };

function paint() {
  const text = byId("text").value;
  byId("paint").replaceChildren(...(text.length > PAINTED_MAX ? [text, " "] : painted(text, editor.wrong)));
}

function setText(text, isPlaced = true) {
  byId("text").value = text;
  clearWrong();
  closeOffers();
  if (isPlaced) byId("text").focus();
  byId("text").setSelectionRange(text.length, text.length);
}

function clearWrong() {
  editor.wrong = null;
  byId("wrong").hidden = true;
  byId("text").removeAttribute("aria-invalid");
  paint();
}

function showWrong(message, place) {
  editor.wrong = place;
  say("wrong", message);
  byId("wrong").hidden = false;
  byId("text").setAttribute("aria-invalid", "true");
  paint();
}

function insert(text) {
  const area = byId("text");
  const { selectionStart: start, selectionEnd: end, value } = area;
  const gap = start && /[\w"}\]]$/.test(value.slice(0, start)) ? " " : "";
  area.setRangeText(gap + text, start, end, "end");
  area.focus();
  clearWrong();
}

// --- completions --------------------------------------------------------------------------------

function openOffers(isAsked) {
  const area = byId("text");
  if (area.selectionStart !== area.selectionEnd) return closeOffers();
  const { from, offers } = completions(area.value, area.selectionStart, isAsked);
  if (!offers.length) return closeOffers();
  // Enter takes an offer only where somebody asked for one, or moved to it: else it is a new line.
  Object.assign(editor, { offers, from, chosen: 0, isChosen: isAsked });
  byId("offers").replaceChildren(...offers.map((offer, at) => make(
    "li",
    { role: "option", id: `offer-${at}`, onmousedown: (event) => { event.preventDefault(); take(at); } },
    make("span", null, offer.text),
    make("span", { class: "quiet" }, offer.kind),
  )));
  byId("offers").hidden = false;
  placeOffers(from);
  choose(0);
}

function placeOffers(from) {
  const range = document.createRange();
  let left = from;
  const walker = document.createTreeWalker(byId("paint"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (left <= node.length) {
      range.setStart(node, left);
      break;
    }
    left -= node.length;
  }
  const place = range.getBoundingClientRect();
  const box = byId("editor").parentElement.getBoundingClientRect();
  const list = byId("offers");
  const x = Math.max(0, Math.min(place.left - box.left, box.width - list.offsetWidth - 4));
  list.style.left = `${x}px`;
  list.style.top = `${place.bottom - box.top + 4}px`;
}

function choose(at) {
  editor.chosen = (at + editor.offers.length) % editor.offers.length;
  for (const [index, item] of [...byId("offers").children].entries()) {
    item.setAttribute("aria-selected", String(index === editor.chosen));
    if (index === editor.chosen) item.scrollIntoView({ block: "nearest" });
  }
  byId("text").setAttribute("aria-activedescendant", `offer-${editor.chosen}`);
}

function move(step) {
  editor.isChosen = true;
  choose(editor.chosen + step);
}

function take(at) {
  const area = byId("text");
  area.setRangeText(editor.offers[at].text, editor.from, area.selectionStart, "end");
  closeOffers();
  clearWrong();
}

function closeOffers() {
  byId("offers").hidden = true;
  byId("text").removeAttribute("aria-activedescendant");
}

// --- history ------------------------------------------------------------------------------------

function remember(text) {
  if (text.length > PAINTED_MAX) return;
  const before = kept(HISTORY, []).filter((one) => one !== text);
  keep(HISTORY, [text, ...before].slice(0, HISTORY_MAX));
  editor.back = -1;
  showHistory();
}

function showHistory() {
  const history = kept(HISTORY, []);
  const items = history.map((text) => pickItem(text.replaceAll(/\s+/g, " "), text));
  byId("history").replaceChildren(...(items.length ? items : [make("li", { class: "quiet" }, "What you run is kept here, in this browser alone.")]));
  byId("history-clear").hidden = !items.length;
}

function pickItem(label, text) {
  return make("li", null, make("button", { type: "button", class: "pick mono", title: text, onclick: () => setText(text) }, label));
}

function goBack(step) {
  const history = kept(HISTORY, []);
  const next = editor.back + step;
  if (next < -1 || next >= history.length) return;
  if (editor.back === -1) editor.draft = byId("text").value;
  editor.back = next;
  setText(next === -1 ? editor.draft : history[next]);
}

// --- keys ---------------------------------------------------------------------------------------

function editorKey(event) {
  const isOpen = !byId("offers").hidden;
  const isCommand = event.ctrlKey || event.metaKey;
  if (event.isComposing) return;
  if (isCommand && event.key === "Enter") runText();
  else if (isCommand && event.key === " ") openOffers(true);
  else if (event.altKey && event.key === "ArrowUp") goBack(1);
  else if (event.altKey && event.key === "ArrowDown") goBack(-1);
  else if (isOpen && event.key === "ArrowDown") move(1);
  else if (isOpen && event.key === "ArrowUp") move(-1);
  else if (isOpen && (event.key === "Tab" || (event.key === "Enter" && editor.isChosen)) && !event.shiftKey) take(editor.chosen);
  else if (isOpen && event.key === "Escape") closeOffers();
  else return;
  event.preventDefault();
}

function startEditor() {
  const area = byId("text");
  area.addEventListener("input", (event) => {
    clearWrong();
    if (event.inputType === "insertText" || event.inputType === "deleteContentBackward") openOffers(false);
    else closeOffers();
  });
  area.addEventListener("keydown", editorKey);
  area.addEventListener("blur", closeOffers);
  area.addEventListener("click", closeOffers);
  byId("history-clear").addEventListener("click", () => {
    keep(HISTORY, []);
    showHistory();
  });
  showHistory();
  paint();
}
