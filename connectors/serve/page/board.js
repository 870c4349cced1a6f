// The status board: the streams of the root, and how they change from one answer to the next.

const BOARD_EVERY_MS = 2000;
const BOARD_KEPT = 60;
const board = { before: new Map(), rates: new Map(), timer: null, turn: 0, isShown: false };

async function askBoard() {
  clearTimeout(board.timer);
  if (byId("view-board").hidden) return;
  const turn = (board.turn += 1);
  if (!board.isShown && !byId("board-said").textContent) say("board-said", "Asking the server…");
  try {
    const response = await fetched("/status");
    const said = parsedJson(await response.text());
    if (response.status === 404) throw new ServerError("This server tells no status.");
    if (!response.ok) throw new ServerError(said.message || `The server answered with ${response.status}.`);
    // Of two that were asked at once the later one counts.
    if (turn !== board.turn) return;
    if (!document.hidden || !board.isShown) showBoard(said, performance.now());
  } catch (error) {
    say("board-said", messageOf(error));
    byId("board-said").classList.add("said-bad");
  }
  if (turn === board.turn) board.timer = setTimeout(askBoard, BOARD_EVERY_MS);
}

const committedOf = (stream) => Object.values(stream.committed || {}).reduce((sum, end) => sum + Number(end), 0);

function noteRates(streams, now) {
  for (const stream of streams) {
    if (stream.pending || stream.error) continue;
    const rates = board.rates.get(stream.name) || [];
    const was = board.before.get(stream.name);
    const at = now - (stream.age_s || 0) * 1000;
    // Of many streams some are told as they were a while ago: these have nothing new.
    if (was && at - was.at < 500) continue;
    const end = committedOf(stream);
    if (was) rates.push(Math.max(0, (end - was.end) / ((at - was.at) / 1000)));
    board.before.set(stream.name, { at, end });
    board.rates.set(stream.name, rates.slice(-BOARD_KEPT));
  }
}

const rateOf = (name) => board.rates.get(name)?.at(-1);

function showBoard({ server, streams }, now) {
  noteRates(streams, now);
  board.isShown = true;
  const pending = streams.filter((stream) => stream.pending).length;
  byId("board-said").classList.remove("said-bad");
  const owner = server.events_owner ? ` · event streams: ${server.events_owner}` : "";
  say("board-said", `shardlog ${server.version || ""} · up ${secondsText(server.uptime_s || 0)}${owner}${pending ? ` · ${WHOLE.format(streams.length - pending)} of ${plural(streams.length, "stream")} read so far` : ""}`);
  const sum = (figure) => streams.reduce((total, stream) => total + Number(figure(stream) || 0), 0);
  const lagging = streams.filter((stream) => isNumber(stream.lag));
  const failed = streams.filter((stream) => stream.error);
  const tiles = [
    [WHOLE.format(streams.length), streams.length === 1 ? "stream" : "streams"],
    [short(sum((stream) => stream.rows)), "rows stored"],
    [rateText(board.rates.size && [...board.rates.values()].some((rates) => rates.length) ? sum((stream) => rateOf(stream.name)) : undefined), "rows a second"],
    [bytesText(sum((stream) => stream.bytes)), "on disk"],
    [WHOLE.format(sum((stream) => stream.parts?.count)), "parts"],
  ];
  if (lagging.length) tiles.push([short(sum((stream) => stream.lag)), "behind Kafka"]);
  if (failed.length) tiles.push([WHOLE.format(failed.length), "cannot be read"]);
  byId("board-tiles").replaceChildren(...tiles.map(([value, label]) => make("div", { class: "tile" }, make("b", null, value), make("span", null, label))));
  if (!streams.length) {
    byId("board-streams").replaceChildren(emptyState("This root has no stream yet. DEFINE a type and STORE an event, or start a worker for a topic."));
    return;
  }
  showTable(byId("board-streams"), boardTable(streams, lagging.length > 0));
}

const short = (value) => (value >= 1e5 ? SHORT.format(value) : WHOLE.format(value));
const rateText = (rate) => (rate === undefined ? "…" : rate >= 100 || rate === 0 ? short(rate) : rate.toFixed(1));

function boardTable(streams, hasLag) {
  const columns = [
    ["Stream", (stream) => make("strong", null, stream.name)],
    ["Kind", (stream) => make("span", { class: "kind" }, stream.kind || "?")],
    ["Shards", (stream) => stream.shards, true],
    ["Rows stored", (stream) => stream.rows, true],
    ["Rows/s", (stream) => rateText(rateOf(stream.name)), true],
    ["Last two minutes", (stream) => sparkOf(stream.name)],
    ...(hasLag ? [["Lag", (stream) => stream.lag, true]] : []),
    ["Hot rows", (stream) => stream.hot_rows, true],
    ["Parts", (stream) => stream.parts && (stream.parts.count ? `${WHOLE.format(stream.parts.count)} · ${bytesText(stream.parts.bytes || 0)}` : 0), true],
    ["On disk", (stream) => (isNumber(stream.bytes) ? bytesText(Number(stream.bytes)) : null), true],
    ["Late", (stream) => stream.late, true],
    ["Expired", (stream) => stream.expired, true],
    ["Lake", (stream) => (stream.lake ? (stream.lake.unpublished ? `${short(stream.lake.unpublished)} waiting, ${secondsText(stream.lake.unpublished_age_s)}` : "all published") : null)],
    ["Newest", (stream) => stream.newest && agoOf(stream.newest)],
  ];
  const head = columns.map(([name, , isRight]) => make("th", { scope: "col", class: isRight && "right" }, name));
  const rows = streams.map((stream) => make("tr", null, ...(stream.error || stream.pending
    ? [make("td", null, make("strong", null, stream.name)), make("td", { colspan: String(columns.length - 1), class: stream.error ? "said-bad whole" : "quiet" }, stream.error || "Not read yet.")]
    : columns.map(([, cell, isRight]) => cellOf(cell(stream), isRight)))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Streams" }, make("table", null, make("thead", null, make("tr", null, ...head)), make("tbody", null, ...rows)));
}

function cellOf(value, isRight) {
  if (value === null || value === undefined) return make("td", { class: `null${isRight ? " right" : ""}` }, "–");
  return make("td", { class: isRight && "right" }, isNumber(value) ? short(Number(value)) : value);
}

function agoOf(iso) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  const text = Number.isFinite(seconds) && seconds >= 0 ? `${secondsText(seconds)} ago` : timeText(iso);
  return make("span", { title: iso }, text);
}

function sparkOf(name) {
  const rates = board.rates.get(name) || [];
  const high = Math.max(1, ...rates);
  const first = BOARD_KEPT - rates.length;
  const d = rates.map((rate, at) => `${at ? "L" : "M"}${first + at} ${(19 - (rate / high) * 17).toFixed(1)}`).join("");
  return makeSvg("svg", { class: "spark", viewBox: `0 0 ${BOARD_KEPT} 20`, preserveAspectRatio: "none", role: "img", "aria-label": `Rows a second, up to ${rateText(Math.max(0, ...rates))}` }, makeSvg("path", { d, "vector-effect": "non-scaling-stroke" }));
}
