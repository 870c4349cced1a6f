// The types that there are, with their fields, and examples of what to ask of them.

const defineStep = (name) => ["Define a type", `DEFINE ${name} FIELDS { amount: "int", status: ["new", "paid", "sent"], note: "string | null" }`];
const FIRST_STEPS = [
  defineStep("order"),
  ["Store an event", 'STORE order FOR ann PAYLOAD { "amount": 5, "status": "new" }'],
];
// More are described once somebody opens or names them.
const TYPES_DESCRIBED_MAX = 24;

async function loadTypes() {
  const list = byId("types");
  try {
    const answer = await command("LIST TYPES");
    if (!answer.isOk) throw new ServerError(answer.message);
    const names = answer.rows.map((row) => row.event_type);
    const described = await Promise.all(names.slice(0, TYPES_DESCRIBED_MAX).map((name) => command(`DESCRIBE ${quoted(name)}`)));
    known.clear();
    for (const [at, row] of answer.rows.entries()) {
      known.set(row.event_type, { version: row.version, kind: row.kind, fields: [], isDescribed: false });
      if (described[at]?.isOk) learn(row.event_type, described[at]);
    }
    showTypes();
  } catch (error) {
    list.replaceChildren(make("li", { class: "quiet said-bad" }, messageOf(error)));
  }
  showExamples();
  paint();
}

function learn(name, answer) {
  const type = known.get(name);
  const newest = answer.rows.filter((one) => one.version === type.version);
  type.fields = newest.map((one) => ({ name: one.field, type: one.type }));
  type.isDescribed = true;
}

// Ask for the fields of a type that has not been described yet.
async function describe(name) {
  const type = known.get(name);
  if (!type || type.isDescribed || type.isAsked) return;
  type.isAsked = true;
  try {
    const answer = await command(`DESCRIBE ${quoted(name)}`);
    if (answer.isOk && known.get(name) === type) learn(name, answer);
  } catch {
    // It is asked for again when somebody needs it.
  } finally {
    type.isAsked = false;
  }
  paint();
}

function quoted(name) {
  return /^\w[\w.-]*$/.test(name) && !upperWords.has(name.toUpperCase()) ? name : JSON.stringify(name);
}

function showTypes() {
  const wanted = byId("type-filter").value.toLowerCase();
  const items = [...known]
    .filter(([name, type]) => name.toLowerCase().includes(wanted) || type.fields.some((field) => field.name.toLowerCase().includes(wanted)))
    .map(([name, type]) => typeItem(name, type));
  if (!known.size) items.push(make("li", null, emptyState("There is no type yet. Begin with", ...FIRST_STEPS.slice(0, 1).map(([label, text]) => make("button", { type: "button", onclick: () => setText(text) }, label)))));
  else if (!items.length) items.push(make("li", { class: "quiet" }, "No type has this in its name or fields."));
  byId("types").replaceChildren(...items);
  byId("live-types").replaceChildren(...["*", ...known.keys()].map((name) => make("option", { value: name })));
}

function typeItem(name, type) {
  const sub = make("div", { class: "sub", hidden: true });
  const about = make("span", { class: "quiet" });
  const head = make("button", { type: "button", class: "pick", "aria-expanded": "false" }, make("span", { class: "mono" }, name), about);
  const show = () => {
    about.textContent = `${type.version ? `v${type.version}` : type.kind}${type.isDescribed ? ` · ${plural(type.fields.length, "field")}` : ""}`;
    sub.replaceChildren(...type.fields.map((field) => make(
      "button",
      { type: "button", title: `Write ${field.name} into the editor`, onclick: () => insert(field.name) },
      make("span", { class: "mono" }, field.name),
      make("span", { class: "quiet" }, field.type),
    )));
  };
  show();
  head.addEventListener("click", async () => {
    sub.hidden = !sub.hidden;
    head.setAttribute("aria-expanded", String(!sub.hidden));
    await describe(name);
    show();
  });
  head.addEventListener("dblclick", () => setText(`QUERY ${quoted(name)} LIMIT 20`));
  return make("li", null, head, sub);
}

function showExamples() {
  const [first] = known;
  const examples = [...(first ? examplesOf(quoted(first[0]), first[1]) : FIRST_STEPS), ["Which types there are", "LIST TYPES"]];
  byId("examples").replaceChildren(...examples.map(([label, text]) => make("li", null, make("button", { type: "button", class: "pick", title: text, onclick: () => setText(text) }, label))));
}

// Examples over a type that there is, with fields that it has.
function examplesOf(name, type) {
  const plain = (field) => field.type.replace(" | null", "");
  const number = type.fields.find((field) => ["int", "float"].includes(plain(field)))?.name;
  const group = type.fields.find((field) => field.type.startsWith("["))?.name;
  const examples = [
    ["The first events", `QUERY ${name} LIMIT 20`],
    ["The newest events", `QUERY ${name} ORDER BY timestamp DESC LIMIT 20`],
    ["How many an hour", `QUERY ${name} COUNT${group ? ` BY ${group}` : ""} PER hour`],
  ];
  if (number) {
    examples.push(["By a condition", `QUERY ${name} WHERE ${number} > 5 ORDER BY ${number} DESC LIMIT 20`]);
    examples.push(["Figures", `QUERY ${name} COUNT, TOTAL ${number}, AVG ${number}, MIN ${number}, MAX ${number}${group ? ` BY ${group}` : ""}`]);
    examples.push(["A chart", `PLOT TOTAL ${number} OF ${name}${group ? ` BY ${group}` : ""} OVER hour`]);
  } else examples.push(["A chart", `PLOT COUNT OF ${name} OVER hour`]);
  const other = [...known.keys()].find((one) => quoted(one) !== name);
  if (other) examples.push(["What follows what", `QUERY ${name} FOLLOWED BY ${quoted(other)} LINKED BY context_id LIMIT 20`]);
  examples.push(["What a query skips", `EXPLAIN QUERY ${name} SINCE ${new Date().toISOString().slice(0, 10)}`]);
  examples.push(["As they are stored", `SUBSCRIBE ${name} FROM START`]);
  examples.push(defineStep(unusedName("order")));
  return examples;
}

// A name that no type has: whoever runs an example changes nothing that is there.
function unusedName(name) {
  const used = new Set([...known.keys()].map((one) => one.toLowerCase()));
  let unused = name;
  for (let number = 2; used.has(unused); number += 1) unused = `${name}_${number}`;
  return unused;
}

function startTypes() {
  byId("type-filter").addEventListener("input", showTypes);
  byId("reload").addEventListener("click", loadTypes);
  showExamples();
}
