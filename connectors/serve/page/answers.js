// A command is run, and its answer shown: as a table, a chart, JSON, and what was skipped.

const FORMS = ["form-table", "form-chart", "form-json", "form-plan"];
const JSON_ROWS_MAX = 500;
const CHANGES_TYPES = /\b(DEFINE)\b/i;
const asked = { text: "", answer: null, plan: null, running: null };
let selectForm;

async function runText(prefix = "") {
  const area = byId("text");
  const lead = area.value.length - area.value.trimStart().length;
  const text = area.value.trim();
  if (!text) return showWrong("Type a command first, such as LIST TYPES, or choose an example.", null);
  closeOffers();
  clearWrong();
  remember(text);
  if (/^SUBSCRIBE\b/i.test(text)) return watchText(text);
  asked.running?.abort();
  const running = (asked.running = new AbortController());
  setRunning(true);
  const sent = prefix ? `${prefix}${lastCommand(text).replace(/^EXPLAIN\s+/i, "")}` : text;
  try {
    const answer = await command(sent, running.signal);
    if (running !== asked.running) return;
    Object.assign(asked, { text: sent, answer, plan: null });
    showAnswer(lead, text, prefix);
    if (CHANGES_TYPES.test(text) && answer.isOk) loadTypes();
  } catch (error) {
    if (running !== asked.running) return;
    showFailure(error.name === "AbortError" ? "Stopped." : messageOf(error));
  } finally {
    if (running === asked.running) setRunning(false);
  }
}

function messageOf(error) {
  if (!(error instanceof ServerError)) console.error(error);
  return error instanceof ServerError ? error.message : `The page failed: ${error.message}`;
}

function setRunning(isRunning) {
  byId("stop").hidden = !isRunning;
  byId("run").disabled = isRunning;
  if (isRunning) {
    byId("status").hidden = true;
    say("message", "Running…");
    say("timing", "");
  }
}

function showFailure(message) {
  asked.answer = null;
  showStatus("Failed", false);
  say("message", message);
  byId("forms").hidden = true;
  byId("cut").hidden = true;
  byId("shown").replaceChildren();
}

function showStatus(text, isOk) {
  byId("status").hidden = false;
  say("status", text);
  byId("status").classList.toggle("bad", !isOk);
}

function showAnswer(lead, text, prefix) {
  const { answer } = asked;
  const { rows, isOk, isCut } = answer;
  showStatus(answer.status, isOk);
  const told = answer.message !== "OK" ? answer.message : "";
  say("message", rows.length && isOk ? [plural(rows.length, "row"), told].filter(Boolean).join(" · ") : told || "Done.");
  say("timing", `${secondsText(answer.ms / 1000)}${answer.ms - answer.first > 5 ? `, first byte after ${secondsText(answer.first / 1000)}` : ""} · ${bytesText(answer.bytes)}`);
  byId("cut").hidden = !isCut;
  if (isCut) say("cut", `The answer has more than ${bytesText(BYTES_MAX)}: here are its first ${plural(rows.length, "row")}. Set a LIMIT, or ask for figures (COUNT … BY …).`);
  byId("forms").hidden = !rows.length;
  if (!isOk) {
    // The editor says it, beside its place.
    showPlace(lead, text, prefix);
    say("message", "");
  }
  const plot = isOk ? plotOf(answer, asked.text) : null;
  byId("form-chart").hidden = !plot;
  byId("form-plan").hidden = !isOk || !/^QUERY\b/i.test(lastCommand(asked.text));
  if (byId("forms").hidden) {
    byId("shown").replaceChildren(...(isOk && !rows.length && /^No matching/.test(told) ? [noRows()] : []));
    return;
  }
  selectForm(answer.plot ? "form-chart" : "form-table");
}

function noRows() {
  return emptyState("No event matches. Take a condition away, look at another context, or at another time.");
}

function showPlace(lead, text, prefix) {
  const { answer } = asked;
  const failed = answer.rows.find((row) => row.line && row.message);
  const message = failed ? failed.message : answer.message;
  // Of EXPLAIN the place is that of a longer text.
  const place = prefix ? null : placeOf(text, message, failed?.line);
  showWrong(answer.message, place && place.map((at) => at + lead));
}

function showForm(form) {
  const { answer, text } = asked;
  const shown = byId("shown");
  shown.setAttribute("aria-labelledby", form);
  if (!answer) return;
  byId("copy").hidden = form === "form-chart" || form === "form-plan";
  if (form === "form-table") shown.replaceChildren(tableOf(answer.rows, "Rows of the answer", /^\s*EXPLAIN/i.test(text)));
  else if (form === "form-chart") shown.replaceChildren(chartsOf(answer.rows, plotOf(answer, text)));
  else if (form === "form-json") shown.replaceChildren(...jsonOf(answer));
  else showPlan(shown, text);
}

function jsonOf(answer) {
  const rows = answer.rows.slice(0, JSON_ROWS_MAX);
  const text = jsonText({ status: answer.status, message: answer.message, ...(answer.plot && { plot: answer.plot }), rows });
  const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The answer as JSON" }, make("pre", { class: "json" }, text));
  const left = answer.rows.length - rows.length;
  return left ? [box, make("p", { class: "note" }, `${plural(left, "row")} more are in the table, and in what Copy copies.`)] : [box];
}

async function showPlan(shown, text) {
  const { answer } = asked;
  shown.replaceChildren(emptyState("Asking what the query skips…"));
  try {
    asked.plan = asked.plan || (await command(`EXPLAIN ${lastCommand(text)}`));
  } catch (error) {
    asked.plan = { isOk: false, message: messageOf(error), rows: [] };
  }
  if (asked.answer !== answer || byId("form-plan").getAttribute("aria-selected") !== "true") return;
  shown.replaceChildren(asked.plan.isOk ? tableOf(asked.plan.rows, "Steps of the query", true) : emptyState(asked.plan.message));
}

// A value as it is copied: as the server has it, where a table shows less of times; in one line.
function copiedText(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "object") return jsonText(value).replaceAll(/\n\s*/g, " ");
  return String(value).replaceAll(/[\t\n\r]/g, " ");
}

async function copyAnswer() {
  const { answer } = asked;
  const isJson = byId("form-json").getAttribute("aria-selected") === "true";
  const columns = columnsOf(answer.rows);
  const text = isJson
    ? jsonText({ status: answer.status, message: answer.message, rows: answer.rows })
    : [columns, ...answer.rows.map((row) => columns.map((name) => copiedText(row[name])))].map((line) => line.join("\t")).join("\n");
  try {
    await navigator.clipboard.writeText(text);
    say("copy", "Copied");
  } catch {
    say("copy", "Not allowed");
  }
  setTimeout(() => say("copy", "Copy"), 1500);
}

function startAnswers() {
  byId("shown").replaceChildren(emptyState("Answers show here. Type a command above, or choose one of the examples."));
  selectForm = asTabs(FORMS, showForm);
  byId("run").addEventListener("click", () => runText());
  byId("stop").addEventListener("click", () => asked.running?.abort());
  byId("explain").addEventListener("click", () => runText("EXPLAIN "));
  byId("copy").addEventListener("click", copyAnswer);
  byId("watch").addEventListener("click", () => watchText(byId("text").value.trim()));
}
