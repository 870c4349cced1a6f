// The language, as far as an editor needs it: words in colours, completions, places of errors.

const VERBS = "DEFINE STORE BATCH QUERY REPLAY REMEMBER SHOW FORGET SUBSCRIBE PLOT DELETE FLUSH PING LIST DESCRIBE EXPLAIN".split(" ");
const WORDS = ("AFTER AND ANY AS ASC AVG BY COUNT DAY DESC EXPECT FALSE FIELDS FOLLOWED FOR FROM HOUR IDEMPOTENCY IN IS LIKE LIMIT LINKED MAX MIN MONTH NONE NOT NOW NULL OF OFFSET OR ORDER OVER PAYLOAD PER PRECEDED RETURN ROW SINCE START STATE TOTAL TRUE TTL TYPES UNIQUE UNTIL USING WEEK WHERE YEAR").split(" ");
const CORE = ["context_id", "event_type", "timestamp", "id", "version"];
const TOKEN_PATTERN = /"(?:[^"\\\n]|\\.)*"?|-?\d[\w.:+-]*|[\p{L}_@/][\p{L}\p{N}_\-.:@/]*|\s+|./gsu;
// Types that the server has, each with its fields: [{name, type}].
const known = new Map();

const upperVerbs = new Set(VERBS);
const upperWords = new Set(WORDS);

function tokensOf(text) {
  const fields = new Set([...CORE, ...[...known.values()].flatMap((type) => type.fields.map((one) => one.name))]);
  const tokens = [];
  let start = true;
  for (const match of text.matchAll(TOKEN_PATTERN)) {
    const word = match[0];
    const upper = word.toUpperCase();
    let kind = "";
    if (word[0] === '"') kind = "string";
    else if (/^-?\d/.test(word)) kind = "number";
    else if (upperVerbs.has(upper) && (start || !fields.has(word))) kind = "verb";
    else if (known.has(word)) kind = "type";
    else if (fields.has(word.split(".").pop())) kind = "field";
    else if (upperWords.has(upper)) kind = "word";
    else if (/^[^\s\w]$/u.test(word)) kind = "mark";
    if (word.trim()) start = word === ";";
    tokens.push({ word, kind, at: match.index });
  }
  return tokens;
}

// The pieces of the editor's paint; [begin, end) of what is wrong is marked.
function painted(text, wrong) {
  const pieces = [];
  for (const { word, kind, at } of tokensOf(text)) {
    const isWrong = wrong && at < wrong[1] && at + word.length > wrong[0];
    const name = [kind && `t-${kind}`, isWrong && "wrong"].filter(Boolean).join(" ");
    pieces.push(name ? make("span", { class: name }, word) : word);
  }
  // A last line that is empty, and an error at the end of the text, have a place, too.
  pieces.push(wrong && wrong[0] >= text.length ? make("span", { class: "wrong" }, "  ") : " ");
  return pieces;
}

// Where in a text an error is: by its line and column, or by the name that it is about.
function placeOf(text, message, firstLine) {
  const placed = /^(?:line (\d+), )?column (\d+): /.exec(message);
  if (placed) {
    const lines = text.split("\n");
    const line = (firstLine || 1) + Number(placed[1] || 1) - 2;
    let at = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
    const blank = placed[1] && Number(placed[1]) > 1 ? 0 : /^\s*/.exec(lines[line] || "")[0].length;
    at += blank + Number(placed[2]) - 1;
    const word = /^(?:"(?:[^"\\\n]|\\.)*"?|[\w.\-:@/]+|\S)/.exec(text.slice(at));
    return [Math.min(at, text.length), Math.min(at, text.length) + (word ? word[0].length : 1)];
  }
  const named = /unknown (?:field|type) "?([\w.-]+)|^([\w.]+) is an? /.exec(message);
  const name = named && (named[1] || named[2]);
  if (!name) return null;
  const found = new RegExp(`(?<![\\w.])${name.replaceAll(/[.\-]/g, "\\$&")}(?![\\w])`).exec(text);
  return found && [found.index, found.index + name.length];
}

// What may come where the caret is: {from, offers: [{text, kind}]}.
function completions(text, caret, isAsked) {
  const before = text.slice(0, caret);
  const word = /[\p{L}_][\p{L}\p{N}_.]*$/u.exec(before)?.[0] || "";
  if ((!word && !isAsked) || inString(before)) return { from: caret, offers: [] };
  const previous = before.slice(0, caret - word.length).toUpperCase();
  const types = [...known.keys()].map((name) => ({ text: name, kind: "type" }));
  const fields = fieldOffers(text);
  const words = WORDS.map((name) => ({ text: name, kind: "" }));
  const verbs = VERBS.map((name) => ({ text: name, kind: "command" }));
  let offers;
  if (/(^|;)\s*$/.test(previous)) offers = verbs;
  else if (/\b(QUERY|REPLAY|DESCRIBE|SUBSCRIBE|STORE|DELETE|OF|FOLLOWED BY|PRECEDED BY)\s+$/.test(previous)) offers = types;
  else if (/\b(WHERE|AND|OR|NOT|BY|USING|TOTAL|AVG|MIN|MAX|UNIQUE)\s+$|\(\s*$|\[\s*$|,\s*$/.test(previous)) offers = [...fields, ...words];
  else offers = [...words, ...fields, ...verbs, ...types];
  const wanted = word.toLowerCase();
  const matching = offers.filter((one) => one.text.toLowerCase().startsWith(wanted) && one.text !== word);
  return { from: caret - word.length, offers: matching.slice(0, 40) };
}

function fieldOffers(text) {
  const named = [...known].filter(([name]) => new RegExp(`(?<!\\w)${name.replaceAll(/\W/g, "\\$&")}(?!\\w)`).test(text));
  for (const [name] of named) describe(name);
  const offers = new Map();
  for (const [, type] of named.length ? named : known) {
    for (const field of type.fields) offers.set(field.name, { text: field.name, kind: field.type });
  }
  if (named.length) for (const name of CORE) offers.set(name, { text: name, kind: "core" });
  return [...offers.values()];
}

function inString(before) {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  return (line.replaceAll(/\\./g, "").split('"').length - 1) % 2 === 1;
}

// The last command of a text, which is the one that may ask for rows.
function lastCommand(text) {
  const tokens = tokensOf(text.trim().replace(/;\s*$/, ""));
  const end = tokens.findLastIndex((token) => token.word === ";");
  return tokens.slice(end + 1).map((token) => token.word).join("").trim();
}
