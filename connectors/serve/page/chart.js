// Charts: lines or bars over time or over names, drawn to the width there is.

const SERIES_MAX = 8;
const BARS_MAX = 60;
// Names that have room beside each other; times have as many points as there are.
const NAMES_MAX = 200;
const FIGURE = /^(count|(count|count_unique|total|avg|min|max)_.+)$/;
const STEPS_MS = [1e3, 5e3, 15e3, 6e4, 3e5, 9e5, 36e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 26298e5, 78894e5, 315576e5];

const MONTH_MS = 26298e5;

// What of an answer may be drawn: what it says itself, or figures by bucket or by name. Else null.
function plotOf(answer, text) {
  const { rows } = answer;
  if (!rows.length) return null;
  if (answer.plot && answer.plot.y?.length && answer.plot.x) return answer.plot;
  const columns = columnsOf(rows);
  if (columns.includes("id") || /^\s*(LIST|DESCRIBE|EXPLAIN|SHOW)\b/i.test(text)) return null;
  const y = columns.filter((name) => FIGURE.test(name) && rows.some((row) => isNumber(row[name])));
  const groups = columns.filter((name) => !y.includes(name));
  if (!y.length || !groups.length) return null;
  const x = groups.includes("bucket") ? "bucket" : groups[0];
  const series = groups.find((name) => name !== x) || null;
  const places = new Set(rows.map((row) => row[x])).size;
  return { x, y, series, kind: x === "bucket" && places > BARS_MAX ? "line" : "bar" };
}

// A chart for each figure: their scales have nothing to do with each other.
function chartsOf(rows, plot) {
  const box = make("div", { class: "charts" });
  const draw = () => box.replaceChildren(...plot.y.map((name) => chartOf(rows, plot, name, box.clientWidth || 640)));
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth && box.clientWidth !== width) {
      width = box.clientWidth;
      draw();
    }
  }).observe(box);
  return box;
}

function chartOf(rows, plot, figure, width) {
  const timed = rows.filter((row) => isTime(row[plot.x]));
  const isTimed = timed.length > 0 && rows.every((row) => row[plot.x] === null || isTime(row[plot.x]));
  // What has no time has no place on an axis of times.
  const all = seriesOf(isTimed ? timed : rows, plot, figure);
  const every = [...new Set(all.slice(0, SERIES_MAX).flatMap((one) => [...one.points.keys()]))];
  if (isTimed) every.sort((a, b) => Date.parse(a) - Date.parse(b));
  const places = isTimed ? every : every.slice(0, NAMES_MAX);
  const drawn = new Set(places);
  const series = all.slice(0, SERIES_MAX).map((one) => ({ ...one, points: new Map([...one.points].filter(([place]) => drawn.has(place))) }));
  const range = rangeOf(series.flatMap((one) => [...one.points.values()]));
  if (!range) return emptyState(`${figure}: there is no number to draw.`);
  // A line needs two places: one alone would be a dot.
  const kind = places.length < 2 ? "bar" : plot.kind;
  const frame = frameOf(places, range, isTimed, kind, width);
  const title = `${figure} by ${plot.x}${plot.series ? ` and ${plot.series}` : ""}`;
  const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${frame.height}`, height: frame.height, role: "img", "aria-label": `${title}: ${plural(places.length, "place")}, from ${numberText(range[0])} to ${numberText(range[1])}` });
  svg.append(...gridOf(frame), ...axisOf(frame));
  for (const [at, one] of series.entries()) svg.append(...(kind === "line" ? lineOf(one, at, frame) : barsOf(one, at, frame, series.length)));
  const heading = make("h3", null, title, make("span", { class: "quiet" }, daysOf(frame)));
  const chart = make("div", { class: "chart" }, heading, svg);
  if (plot.series) chart.append(legendOf(series));
  if (all.length > SERIES_MAX) chart.append(make("p", { class: "note" }, `The ${SERIES_MAX} largest of ${all.length} are drawn; the table has all.`));
  if (every.length > places.length) chart.append(make("p", { class: "note" }, `The first ${NAMES_MAX} of ${WHOLE.format(every.length)} are drawn; the table has all. ORDER BY a figure, or LIMIT, chooses.`));
  addTip(chart, svg, series, frame);
  return chart;
}

// The least and the largest of numbers, of which there may be more than a call takes.
function rangeOf(values) {
  if (!values.length) return null;
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [values[0], values[0]]);
}

// The days that a chart is about: its axis has hours, or days without their year.
function daysOf(frame) {
  if (!frame.times) return "";
  const times = frame.places.filter(isTime);
  const [first, last] = [times[0], times.at(-1)].map((time) => time.slice(0, 10));
  return first === last ? ` ${first}, UTC` : ` ${first} to ${last}, UTC`;
}

// The series of a figure, the largest first: [{name, points: place -> value}].
function seriesOf(rows, plot, figure) {
  const byName = new Map();
  for (const row of rows) {
    const name = plot.series ? valueText(row[plot.series]) : figure;
    if (!byName.has(name)) byName.set(name, { name, points: new Map(), sum: 0 });
    const value = row[figure];
    if (!isNumber(value)) continue;
    const one = byName.get(name);
    one.points.set(valueText(row[plot.x]) === "null" ? "null" : String(row[plot.x]), Number(value));
    one.sum += Math.abs(Number(value));
  }
  return [...byName.values()].sort((a, b) => b.sum - a.sum);
}

function frameOf(places, [least, largest], isTimed, kind, width) {
  const ticks = ticksOf(Math.min(0, least), Math.max(0, largest));
  const left = 12 + 7 * Math.max(...ticks.map((tick) => numberText(tick).length));
  const frame = { places, isTimed, ticks, left, right: width - 14, top: 10, bottom: 230, height: 262, kind };
  const [low, high] = [ticks[0], ticks[ticks.length - 1]];
  frame.y = (value) => frame.bottom - ((value - low) / (high - low || 1)) * (frame.bottom - frame.top);
  const span = frame.right - frame.left;
  const times = places.filter(isTime).map((place) => Date.parse(place));
  if (isTimed && times.length) {
    const gaps = times.slice(1).map((time, at) => time - times[at]).filter((gap) => gap > 0);
    const step = gaps.length ? rangeOf(gaps)[0] : 36e5;
    const pad = kind === "line" && times.length > 1 ? 0 : step / 2;
    const [first, last] = [times[0] - pad, times[times.length - 1] + pad];
    frame.times = [first, last];
    frame.x = (place) => frame.left + ((Date.parse(place) - first) / (last - first || 1)) * span;
    frame.band = Math.max(1, Math.min(90, (step / (last - first || 1)) * span));
  } else {
    const step = span / Math.max(1, places.length);
    const numbers = new Map(places.map((place, at) => [place, at]));
    frame.x = (place) => frame.left + (numbers.get(place) + 0.5) * step;
    frame.step = step;
    frame.band = Math.min(step, 90);
  }
  return frame;
}

function ticksOf(low, high) {
  const range = high - low || 1;
  const rough = range / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * power >= rough) * power;
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

function numberText(value) {
  return Math.abs(value) >= 1e5 ? SHORT.format(value) : String(Number(value.toPrecision(6)));
}

function gridOf(frame) {
  return frame.ticks.flatMap((tick) => [
    makeSvg("line", { class: tick === 0 ? "axis" : "grid", x1: frame.left, x2: frame.right, y1: frame.y(tick), y2: frame.y(tick) }),
    makeSvg("text", { x: frame.left - 6, y: frame.y(tick) + 4, "text-anchor": "end" }, numberText(tick)),
  ]);
}

function axisOf(frame) {
  const room = Math.max(1, Math.floor((frame.right - frame.left) / 95));
  if (!frame.times) {
    // Short names have room beside each other where long ones are left out.
    const longest = Math.max(...frame.places.map((place) => (isTime(place) ? timeText(place) : place).length));
    const every = Math.min(Math.ceil(frame.places.length / room), Math.ceil((longest * 7) / frame.step));
    const chars = Math.max(3, Math.floor((frame.step * every) / 7));
    return frame.places.filter((_, at) => at % every === 0).map((place) => {
      const text = isTime(place) ? timeText(place) : place;
      const said = text.length > chars ? `${text.slice(0, chars - 1)}…` : text;
      const isOut = frame.x(place) < said.length * 3.2;
      return makeSvg("text", { x: isOut ? 0 : frame.x(place), y: frame.bottom + 18, "text-anchor": isOut ? "start" : "middle" }, said);
    });
  }
  const [first, last] = frame.times;
  const step = STEPS_MS.find((one) => (last - first) / one <= room) || STEPS_MS.at(-1);
  const texts = [];
  for (const time of tickTimes(first, last, step)) {
    const iso = new Date(time).toISOString();
    const x = frame.x(iso);
    const text = tickText(iso, step, last - first);
    const half = text.length * 3.2;
    const anchor = x + half > frame.right + 14 ? "end" : x < half ? "start" : "middle";
    texts.push(makeSvg("line", { class: "axis", x1: x, x2: x, y1: frame.bottom, y2: frame.bottom + 4 }));
    texts.push(makeSvg("text", { x, y: frame.bottom + 18, "text-anchor": anchor }, text));
  }
  return texts;
}

// Multiples of a step; months and years as the calendar has them.
function tickTimes(first, last, step) {
  const months = Math.round(step / MONTH_MS);
  const from = new Date(first);
  const times = [];
  const timeOf = (at) => (months
    ? Date.UTC(1970, (Math.floor(((from.getUTCFullYear() - 1970) * 12 + from.getUTCMonth()) / months) + at) * months)
    : Math.ceil(first / step) * step + at * step);
  for (let at = 0; timeOf(at) <= last && times.length < 1000; at += 1) if (timeOf(at) >= first) times.push(timeOf(at));
  return times;
}

function tickText(iso, step, span) {
  if (step >= 315576e5) return iso.slice(0, 4);
  if (step >= 26298e5) return iso.slice(0, 7);
  if (step >= 864e5) return iso.slice(0, 10);
  if (step < 6e4) return iso.slice(11, 19);
  return span > 864e5 ? `${iso.slice(5, 10)} ${iso.slice(11, 16)}` : iso.slice(11, 16);
}

function lineOf(one, at, frame) {
  const places = frame.places.filter((place) => one.points.has(place));
  const d = places.map((place, index) => `${index ? "L" : "M"}${frame.x(place).toFixed(1)} ${frame.y(one.points.get(place)).toFixed(1)}`).join("");
  const path = makeSvg("g", { class: `k${at}` }, makeSvg("path", { class: "path", d }));
  if (places.length > BARS_MAX) return [path];
  return [path, ...places.map((place) => makeSvg("circle", { class: `k${at}`, cx: frame.x(place), cy: frame.y(one.points.get(place)), r: 2.5 }))];
}

function barsOf(one, at, frame, count) {
  const width = Math.max(1, (frame.band * 0.8) / count);
  return [...one.points].map(([place, value]) => makeSvg("rect", {
    class: `k${at} bar-of`,
    "stroke-width": 0,
    x: frame.x(place) - (width * count) / 2 + at * width,
    y: Math.min(frame.y(0), frame.y(value)),
    width: Math.max(1, width - (count > 1 && width > 4 ? 1 : 0)),
    height: Math.max(value ? 1 : 0, Math.abs(frame.y(0) - frame.y(value))),
    rx: width > 6 ? 2 : 0,
  }));
}

function swatch(at) {
  return makeSvg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, makeSvg("rect", { class: `k${at}`, width: 10, height: 10, rx: 2 }));
}

function legendOf(series) {
  return make("div", { class: "legend" }, ...series.map((one, at) => make("span", null, swatch(at), one.name)));
}

// The values of the place that the pointer is nearest to.
function addTip(chart, svg, series, frame) {
  const tip = make("div", { class: "tip", hidden: true });
  const guide = makeSvg("line", { class: "guide", y1: frame.top, y2: frame.bottom, visibility: "hidden" });
  svg.append(guide);
  chart.append(tip);
  const xs = frame.places.map(frame.x);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = event.clientX - box.left;
    const place = frame.places[xs.reduce((best, one, at) => (Math.abs(one - x) < Math.abs(xs[best] - x) ? at : best), 0)];
    const lines = series.map((one, at) => [one, at]).filter(([one]) => one.points.has(place));
    tip.replaceChildren(
      make("strong", null, isTime(place) ? timeText(place) : place),
      ...lines.map(([one, at]) => make("div", null, swatch(at), series.length > 1 ? `${one.name}: ` : "", String(one.points.get(place)))),
    );
    tip.hidden = false;
    const at = frame.x(place);
    for (const end of ["x1", "x2"]) guide.setAttribute(end, at);
    guide.setAttribute("visibility", "visible");
    tip.style.left = `${Math.max(0, at > box.width / 2 ? at - tip.offsetWidth - 10 : at + 10)}px`;
    tip.style.top = "2.2rem";
  });
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true;
    guide.setAttribute("visibility", "hidden");
  });
}
