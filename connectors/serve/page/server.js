// The server: one command, its answer; a token where it asks for one.

const BYTES_MAX = 4 * 2 ** 20;
const TOKEN = "shardlog-token";

class ServerError extends Error {}

function tokenKept() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

function keepToken(text) {
  try {
    if (text) sessionStorage.setItem(TOKEN, text);
    else sessionStorage.removeItem(TOKEN);
  } catch {
    // Then each request is refused, and says so.
  }
}

async function fetched(path, options = {}) {
  const headers = { ...options.headers };
  const token = tokenKept();
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server does not answer. Is it running?");
  }
  if (answer.status === 401) askForToken(token ? "The server does not know this token." : "This server asks for a token.");
  return answer;
}

function askForToken(why) {
  byId("token-form").hidden = false;
  byId("token-open").hidden = false;
  say("token-why", why);
}

// Integers beyond 2^53 stay what they are, where the browser tells how they were written.
function parsedJson(text) {
  return JSON.parse(text, (_name, value, context) => {
    const isLarge = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isLarge && context?.source && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  });
}

// What a command is answered. An answer beyond BYTES_MAX is cut behind its last whole row.
async function command(text, signal) {
  const begun = performance.now();
  const stopping = new AbortController();
  signal?.addEventListener("abort", () => stopping.abort());
  const response = await fetched("/command", {
    method: "POST",
    body: text,
    signal: stopping.signal,
    headers: { Accept: "application/json", "Content-Type": "text/plain; charset=utf-8" },
  });
  const first = performance.now() - begun;
  const { body, bytes, isCut } = await bodyText(response, stopping);
  let answer;
  try {
    answer = parsedJson(isCut ? cutBody(body) : body);
  } catch {
    if (isCut) throw new ServerError(`The first row alone has more than ${bytesText(BYTES_MAX)}. RETURN fewer fields.`);
    throw new ServerError(response.ok
      ? "The answer ended before it was whole. Set a LIMIT, or run it again."
      : `The server answered with ${response.status}.`);
  }
  return {
    status: answer.status || answer.error || String(response.status),
    message: answer.message || "",
    rows: answer.rows || [],
    plot: answer.plot || null,
    isOk: response.ok,
    isCut,
    bytes,
    first,
    ms: performance.now() - begun,
  };
}

async function bodyText(response, stopping) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const pieces = [];
  let bytes = 0;
  for (;;) {
    let read;
    try {
      read = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError("The answer broke off. Set a LIMIT, or run it again.");
    }
    if (read.done) break;
    bytes += read.value.length;
    pieces.push(decoder.decode(read.value, { stream: true }));
    if (bytes > BYTES_MAX) {
      stopping.abort();
      return { body: pieces.join("").slice(0, BYTES_MAX), bytes, isCut: true };
    }
  }
  return { body: pieces.join(""), bytes, isCut: false };
}

// A body that was cut, ended behind its last whole row.
function cutBody(text) {
  let depth = 0;
  let end = 0;
  let isString = false;
  // Mark by mark: no pattern may go back over a text that was cut.
  const marks = /[{}"\\]/g;
  for (let mark = marks.exec(text); mark; mark = marks.exec(text)) {
    if (mark[0] === "\\") marks.lastIndex += 1;
    else if (mark[0] === '"') isString = !isString;
    else if (isString) continue;
    else if (mark[0] === "{") depth += 1;
    else if ((depth -= 1) === 1) end = marks.lastIndex;
  }
  return `${text.slice(0, end)}]}`;
}

// The events of a subscription, each {name, data, id}, until it ends.
async function* serverEvents(text, after, signal) {
  const headers = { Accept: "text/event-stream" };
  if (after) headers["Last-Event-ID"] = after;
  const response = await fetched(`/subscribe?command=${encodeURIComponent(text)}`, { headers, signal });
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    const error = new ServerError(said.message || `The server answered with ${response.status}.`);
    // Whoever is told to try again does; anything else stays wrong.
    error.isFinal = response.status !== 503;
    throw error;
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const event = {};
      for (const line of part.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) event[line.slice(0, at)] = line.slice(at + 2);
      }
      if (event.event) yield { name: event.event, id: event.id, data: parsedJson(event.data) };
    }
  }
}
