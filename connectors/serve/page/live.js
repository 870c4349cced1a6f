// A subscription: rows as they are stored, paused and gone on with at its checkpoint.

const LIVE_ROWS_MAX = 200;
const FRESH_MAX = 50;
const PAINT_EVERY_MS = 150;
const OF_CONDITIONS = new Set("AND OR NOT IN LIKE IS NULL TRUE FALSE".split(" "));
const AGAIN_MS = [500, 1000, 2000, 5000];
const live = { text: "", checkpoint: null, rows: [], count: 0, stopping: null, isCaughtUp: false, timer: null, seen: [] };

function liveText() {
  const [type, context, where] = ["live-type", "live-context", "live-where"].map((id) => byId(id).value.trim());
  const parts = [`SUBSCRIBE ${type === "*" ? "*" : quoted(type)}`];
  if (context) parts.push(`FOR ${context.startsWith('"') ? context : JSON.stringify(context)}`);
  if (where) parts.push(`WHERE ${where}`);
  return `${parts.join(" ")} FROM ${byId("live-from").value}`;
}

// Go to the live view with what a text asks for.
function watchText(text) {
  if (/^SUBSCRIBE\b/i.test(text)) {
    selectView("tab-live");
    return startLive(text.replace(/;\s*$/, ""));
  }
  const { type, context, where } = watchedOf(lastCommand(text));
  byId("live-type").value = type;
  byId("live-context").value = context;
  byId("live-where").value = where;
  selectView("tab-live");
  return startLive(liveText());
}

// What of a query a subscription takes, too: its type, context and condition.
function watchedOf(text) {
  const tokens = tokensOf(text).filter((token) => token.word.trim());
  const nameOf = (word) => (word.startsWith('"') ? parsedName(word) : word);
  const at = tokens.findIndex((token) => known.has(nameOf(token.word)));
  if (at < 0) return { type: "*", context: "", where: "" };
  const clauses = tokens.slice(at + 1);
  const begins = (name) => clauses.findIndex((token) => token.kind === "word" && token.word.toUpperCase() === name);
  const [contextAt, conditionAt] = [begins("FOR"), begins("WHERE")];
  const condition = conditionAt < 0 ? [] : clauses.slice(conditionAt + 1);
  const end = condition.findIndex((token) => token.kind === "word" && !OF_CONDITIONS.has(token.word.toUpperCase()));
  const taken = end < 0 ? condition : condition.slice(0, end);
  const last = taken.at(-1);
  return {
    type: nameOf(tokens[at].word),
    context: contextAt < 0 ? "" : nameOf(clauses[contextAt + 1]?.word ?? ""),
    where: last ? text.slice(taken[0].at, last.at + last.word.length) : "",
  };
}

function parsedName(word) {
  try {
    return JSON.parse(word);
  } catch {
    return word;
  }
}

function startLive(text) {
  stopLive();
  Object.assign(live, { text, checkpoint: null, rows: [], count: 0, isCaughtUp: false, seen: [] });
  paintLive.before = 0;
  paintLive();
  followLive();
}

function stopLive() {
  live.stopping?.abort();
  live.stopping = null;
}

async function followLive() {
  const stopping = (live.stopping = new AbortController());
  let failures = 0;
  while (stopping === live.stopping) {
    try {
      liveState(live.checkpoint ? "Going on…" : "Connecting…", true);
      for await (const event of serverEvents(live.text, live.checkpoint, stopping.signal)) {
        if (stopping !== live.stopping) return;
        failures = 0;
        if (!takeEvent(event)) return;
      }
    } catch (error) {
      if (stopping !== live.stopping || error.name === "AbortError") return;
      if (error.isFinal) return endLive(error.message);
      liveState(`${messageOf(error instanceof ServerError ? error : new ServerError("The connection broke."))} Trying again…`, true);
    }
    // It ended: by the server's bound, or with it. What comes behind the checkpoint is asked for.
    await new Promise((done) => setTimeout(done, AGAIN_MS[Math.min(failures++, AGAIN_MS.length - 1)]));
  }
}

// Take an event; return whether there may be more.
function takeEvent(event) {
  if (event.name === "failed") {
    endLive(`${event.data.status}: ${event.data.message}`);
    return false;
  }
  if (event.id) live.checkpoint = event.id;
  if (event.name === "caught_up") live.isCaughtUp = true;
  if (event.name === "row") {
    live.count += 1;
    live.rows.unshift(event.data);
    live.rows.length = Math.min(live.rows.length, LIVE_ROWS_MAX);
    if (live.isCaughtUp) live.seen.push(performance.now());
  }
  liveState(live.isCaughtUp ? "Live." : "Reading what was stored before…", true);
  live.timer = live.timer || setTimeout(paintLive, PAINT_EVERY_MS);
  return true;
}

function endLive(message) {
  live.stopping = null;
  liveState(message, false);
  byId("live-state").classList.add("said-bad");
}

function liveState(text, isRunning) {
  say("live-state", text);
  byId("live-state").classList.remove("said-bad");
  byId("live-dot").hidden = !isRunning;
  byId("live-pause").disabled = !isRunning && !live.checkpoint;
  say("live-pause", isRunning ? "Pause" : "Go on");
}

function pauseLive() {
  if (live.stopping) {
    stopLive();
    liveState("Paused. Going on misses nothing.", false);
  } else if (live.text) followLive();
}

function paintLive() {
  live.timer = null;
  const since = performance.now() - 5000;
  live.seen = live.seen.filter((time) => time > since);
  say("live-count", live.count ? `${plural(live.count, "event")}${live.seen.length ? ` · ${(live.seen.length / 5).toFixed(1)} a second` : ""}` : "");
  say("live-checkpoint", live.checkpoint || "none yet");
  say("live-text", live.text ? `${live.text} · checkpoint` : "Checkpoint");
  const box = byId("live-rows");
  if (!live.rows.length) {
    box.replaceChildren(emptyState(live.text ? `${live.text}: nothing yet. Events show here as they are stored.` : "Choose a type, or * for all, and press Start. Events show here as they are stored."));
    return;
  }
  const table = tableOf(live.rows, "Events, the newest first");
  // What is many at once is no news.
  const fresh = live.count - (paintLive.before || 0);
  if (fresh > 0 && fresh <= FRESH_MAX) for (const row of [...table.querySelectorAll("tbody tr")].slice(0, fresh)) {
    row.className = "fresh";
    row.addEventListener("animationend", () => row.removeAttribute("class"));
  }
  paintLive.before = live.count;
  const left = live.count - live.rows.length;
  showTable(box, table, left > 0 ? make("p", { class: "quiet" }, `The newest ${LIVE_ROWS_MAX} are shown.`) : "");
}

function startLiveView() {
  byId("live-form").addEventListener("submit", (event) => {
    event.preventDefault();
    startLive(liveText());
  });
  byId("live-pause").addEventListener("click", pauseLive);
  byId("live-clear").addEventListener("click", () => {
    Object.assign(live, { rows: [], count: 0, seen: [] });
    paintLive.before = 0;
    paintLive();
  });
  paintLive();
}
