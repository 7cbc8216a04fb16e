// The dashboard of duelrank: reads one ranker from the API, draws it, and follows it live.
// Plain JavaScript without a build step. All text goes into the page as textContent, never as markup.
"use strict";

// ---------------------------------------------------------------- what is known

const page = document.body.dataset;
const readOnly = page.readOnly === "yes";
const RANGES = { hour: 3600, day: 86400, week: 7 * 86400, month: 30 * 86400, all: Infinity }; // seconds
const KINDS = ["explored", "greedy", "guard", "baseline", "shadow"];
const KIND_COLOURS = { explored: "--c1", greedy: "--c3", guard: "--c4", baseline: "--c8", shadow: "--c6" };
const TROUBLE = { missing: "--c1", nan: "--c5", infinite: "--c2", out_of_range: "--c7" };
const MARKS = {
  alarm: ["A", "--bad"], rollback: ["B", "--warn"], freeze: ["F", "--c6"], resume: ["R", "--good"], promote: ["P", "--c4"],
  start: ["S", "--c8"], pin: ["V", "--c8"], unpin: ["V", "--c8"], change: ["C", "--c8"], label: ["L", "--c8"],
};
const MARK_WORDS = { start: "restart", promote: "promotion", pin: "pin", unpin: "unpin" };
const POLL = 5000, REFRESH = 30000, RETRY = [1000, 2000, 5000], AWAY = 5000; // milliseconds
const LIVE_POINTS = 300;

let key = ""; // the API key: here and nowhere else
let name = page.name;
let range = "day";
let info = null, guard = null, hist = null, versions = null;
let dense = null; // the history with the steps in which nothing happened
let pulse = { time: [], rate: [], lag: [] }; // the last minutes, from the live stream
let lists = [];
let generation = 0; // counts up when another ranker, range or key is chosen: what was asked for before is stale

const $ = (id) => document.getElementById(id);
const css = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
const faint = (colour, alpha) => colour + Math.round(alpha * 255).toString(16).padStart(2, "0");

// ---------------------------------------------------------------- words and numbers

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const percent = (x, digits = 1) => (x == null ? "–" : (100 * x).toFixed(digits) + "%");
const short = (x) => (x == null ? "–" : Math.abs(x) >= 100000 ? compact.format(x) : whole.format(x));
const decimal = (x, digits = 3) => (x == null ? "–" : x.toFixed(digits));
const moment = (seconds, long) =>
  new Date(seconds * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", ...(long ? { year: "numeric" } : {}), hour: "2-digit", minute: "2-digit", ...(long ? { second: "2-digit" } : {}) });
const sum = (numbers) => (numbers || []).reduce((total, x) => total + (x || 0), 0);

// ---------------------------------------------------------------- the API

class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.status = status;
    this.slug = (problem.type || "").replace("/docs#", "");
  }
}

/** There was no answer: the service is gone, or the way to it. */
class Silent extends Error {}

function silent(error) {
  throw error.name === "AbortError" ? error : new Silent("The service does not answer.");
}

async function request(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (key) headers.Authorization = "Bearer " + key;
  const answer = await fetch(path, { cache: "no-store", ...options, headers }).catch(silent);
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer;
}

const get = async (path) => (await request(path)).json().catch(silent);
const post = async (path, body) => (await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: body && JSON.stringify(body) })).json().catch(silent);
const of = (tail = "") => `/v1/rankers/${encodeURIComponent(name)}${tail}`;

// ---------------------------------------------------------------- small parts of the page

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text != null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function setText(id, text) {
  const node = $(id);
  if (node.textContent !== text) node.textContent = text;
}

function say(message) {
  $("notice").hidden = !message;
  setText("notice", message || "");
}

function setStatus(state, text) {
  $("status").dataset.state = state;
  setText("status-text", text);
}

function askForKey(message) {
  $("key-card").hidden = false;
  for (const id of ["head", "tiles", "panels"]) $(id).hidden = true;
  setStatus("off", "An API key is needed");
  say(message);
}

// ---------------------------------------------------------------- charts

const charts = new Map(); // by the id of their place

/**
 * Draw lines in a place of the page, or bring them up to date.
 *
 * `series` has for each line: label, colour (a CSS variable), values, and where they differ from the usual: format, width, fill, dash,
 * told (what the legend tells in place of the values), rest (what it tells without a cursor), silent (not in the legend), bars. `given` has: time (whether x is time, with
 * the marks), range (of y), log, levels (horizontal lines), bands, empty (what to say where there is nothing to draw), xFormat.
 */
function draw(id, x, series, given = {}) {
  const place = $(id);
  const before = charts.get(id);
  const nothing = !x.length || !series.length;
  place.classList.toggle("nothing", nothing);
  place.hidden = nothing && given.empty === ""; // a second chart of a panel: the first one says it
  if (place.previousElementSibling.tagName === "H3") place.previousElementSibling.hidden = place.hidden;
  if (nothing || (before && before.empty)) clear(id);
  if (nothing) {
    const said = element("p", given.empty ?? "No lists yet.", "empty");
    place.append(said);
    place.removeAttribute("tabindex");
    place.removeAttribute("role");
    place.removeAttribute("aria-label");
    charts.set(id, { empty: true, destroy: () => said.remove() });
    return;
  }
  const shape = JSON.stringify([series.map((each) => [each.label, each.colour, each.dash, each.silent]), given.time, given.log, given.bands]);
  if (before && before.shape === shape) {
    Object.assign(before, { series, given, x });
    before.plot.setData([x, ...series.map((each) => each.values)]);
  } else {
    clear(id);
    charts.set(id, build(place, x, series, given, shape));
  }
  tell(charts.get(id));
}

function clear(id) {
  charts.get(id)?.destroy();
  charts.delete(id);
}

function build(place, x, series, given, shape) {
  const chart = { place, x, series, given, shape, plot: null };
  const body = element("div"), legend = element("ul", null, "legend"), readout = element("p", null, "readout");
  place.append(body, legend, readout);
  chart.entries = series.map((each) => {
    if (each.silent) return null;
    const item = element("li"), swatch = element("i"), value = element("b");
    swatch.style.background = css(each.colour);
    item.append(swatch, element("span", each.label), value);
    legend.append(item);
    return value;
  });
  chart.readout = readout;
  const size = () => ({ width: Math.max(place.clientWidth, 200), height: place.classList.contains("tall") ? 300 : place.classList.contains("low") ? 120 : 190 });
  chart.plot = new uPlot(options(chart, size()), [x, ...series.map((each) => each.values)], body);
  const watch = new ResizeObserver(() => {
    if (place.clientWidth && Math.abs(place.clientWidth - chart.plot.width) > 1) chart.plot.setSize(size());
  });
  watch.observe(place);
  place.tabIndex = 0;
  place.setAttribute("role", "img");
  place.onkeydown = (event) => step(chart, event);
  place.onblur = () => chart.plot.setCursor({ left: -10, top: -10 });
  chart.destroy = () => {
    watch.disconnect();
    chart.plot.destroy();
    place.onkeydown = place.onblur = null;
    place.replaceChildren();
  };
  return chart;
}

function options(chart, size) {
  const { series, given } = chart;
  const grid = { stroke: css("--grid"), width: 1 }, ticks = { show: false };
  const axis = { stroke: css("--muted"), font: "12px system-ui, sans-serif", lineGap: 1.2, grid, ticks };
  const format = series[0].format || short;
  return {
    ...size,
    padding: [16, given.time ? 30 : 18, 0, 0], // half of the last label of a time sticks out
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false }, ...(given.time ? { sync: { key: "time" } } : {}) },
    scales: {
      x: { time: Boolean(given.time), range: (plot, low, high) => chart.given.xRange || along(chart, low, high) },
      y: { ...(given.log ? { distr: 3 } : {}), range: (plot, low, high) => given_range(chart, low, high) },
    },
    axes: [
      { ...axis, grid: { show: false }, size: given.time ? 38 : 26, gap: 6, space: given.time ? 76 : 50, ...(given.xFormat ? { values: (plot, ticks) => ticks.map(given.xFormat), ...(given.xTicks ? { splits: () => chart.given.xTicks() } : { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000] }) } : { values: TIMES }) },
      { ...axis, size: 50, gap: 5, ...(given.log ? { splits: powers, filter: (plot, splits) => splits } : {}), values: (plot, ticks) => ticks.map((tick) => (tick == null ? "" : (given.yFormat || format)(tick))) },
    ],
    series: [
      {},
      ...series.map((each, i) => ({
        label: each.label,
        stroke: each.fade ? faint(css(each.colour), each.fade) : css(each.colour),
        width: each.width ?? 1.75,
        dash: each.dash,
        fill: each.fill ? faint(css(each.colour), each.fill) : undefined,
        spanGaps: true,
        points: { show: () => !each.bars && each.width !== 0 && few(chart, i), size: 5 },
        ...(each.bars ? { paths: uPlot.paths.bars({ size: [0.66, 60], radius: 0.12 }) } : {}),
      })),
    ],
    bands: (given.bands || []).map(([upper, lower, colour, alpha]) => ({ series: [upper, lower], fill: faint(css(colour), alpha) })),
    hooks: { draw: [(plot) => decorate(plot, chart)], setCursor: [() => tell(chart)] },
  };
}

/** Whether a series has so few values that a line alone would hardly be seen. */
const few = (chart, i) => chart.series[i].values.filter((value) => value != null).length < 3;

/** Powers of ten, a handful of them. */
function powers(plot, axis, low, high) {
  const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high)), by = Math.max(1, Math.ceil((last - first) / 4));
  return Array.from({ length: Math.floor((last - first) / by) + 1 }, (_, i) => 10 ** (first + i * by));
}

/** 24 hours and a day's name, whatever the language of the browser. */
const TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", null, null, null, null, null, null, 1],
  [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [60, "{HH}:{mm}", null, null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
];

/** From the first step to the end of the last one, or to what has happened behind it. */
function along(chart, low, high) {
  if (!chart.given.time) return chart.x.length === 1 ? [low - 1, low + 1] : [low, high];
  const [first, last] = [chart.x[0], chart.x[chart.x.length - 1]], seconds = hist?.seconds || 60;
  const end = Math.max(last + seconds, ...(hist?.marks || []).map((mark) => mark.time));
  return [chart.x.length < 3 ? first - 5 * seconds : first, end];
}

function given_range(chart, low, high) {
  const wanted = chart.given.range;
  if (typeof wanted === "function") return wanted(low, high);
  if (low == null) [low, high] = [0, 1];
  const room = Math.max(high - low, Math.abs(high) * 0.05, 1e-6) * 0.08;
  return [wanted?.[0] ?? low - room, wanted?.[1] ?? high + room];
}

/** Draw what is no series: horizontal levels, and what happened as vertical lines with a letter. */
function decorate(plot, chart) {
  const { ctx, bbox } = plot, ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.lineWidth = ratio;
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  for (const [value, text, colour] of chart.given.levels || []) {
    const y = plot.valToPos(value, "y", true);
    if (!(y >= bbox.top - 1 && y <= bbox.top + bbox.height + 1)) continue;
    ctx.strokeStyle = ctx.fillStyle = css(colour);
    ctx.setLineDash([5 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    const width = ctx.measureText(text).width, left = bbox.left + 6 * ratio;
    ctx.fillStyle = faint(css("--card"), 0.8);
    ctx.fillRect(left - 3 * ratio, y + 3 * ratio, width + 6 * ratio, 15 * ratio);
    ctx.fillStyle = css(colour);
    ctx.textAlign = "left";
    ctx.fillText(text, left, y + 14 * ratio);
  }
  if (chart.given.time) {
    for (const mark of hist?.marks || []) drawMark(plot, mark, ratio);
  }
  ctx.restore();
}

function drawMark(plot, mark, ratio) {
  const { ctx, bbox } = plot, x = Math.round(plot.valToPos(mark.time, "x", true));
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  const [letter, colour] = MARKS[mark.event] || ["?", "--c8"];
  ctx.strokeStyle = ctx.fillStyle = css(colour);
  ctx.setLineDash([2 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.setLineDash([]);
  const side = 13 * ratio;
  ctx.fillRect(x - side / 2, bbox.top - side - ratio, side, side);
  ctx.fillStyle = css("--card");
  ctx.font = `600 ${9.5 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.fillText(letter, x, bbox.top - 4.2 * ratio);
}

/** Tell the values at the cursor, or the newest, in the legend; and what happened there. */
function tell(chart) {
  if (!chart?.plot) return;
  const { plot, series, given, x } = chart;
  const pointed = plot.cursor.idx != null && plot.cursor.left >= 0;
  const at = pointed ? plot.cursor.idx : x.length - 1;
  series.forEach((each, i) => {
    if (!chart.entries[i]) return;
    const values = each.told || each.values;
    if (!pointed && each.rest != null) return void (chart.entries[i].textContent = each.rest);
    let place = at;
    while (!pointed && place > 0 && values[place] == null) place--; // of a series that has ended, its last
    chart.entries[i].textContent = (each.format || short)(values[place]);
  });
  let said = pointed ? (given.time ? moment(x[at]) : given.xTell ? given.xTell(x[at]) : "") : "";
  if (pointed && given.time) {
    const near = (hist?.marks || []).filter((mark) => Math.abs(plot.valToPos(mark.time, "x") - plot.cursor.left) < 7);
    said += near.map((mark) => ` · ${MARK_WORDS[mark.event] || mark.event}: ${mark.text}`).join("");
    if (versionAt(at) != null) said += ` · version ${whole.format(versionAt(at))}`;
  }
  chart.readout.textContent = said;
  const newest = series.filter((each) => !each.silent).map((each) => `${each.label} ${(each.format || short)((each.told || each.values)[x.length - 1])}`);
  chart.place.setAttribute("aria-label", `Chart. Newest: ${newest.join(", ")}. Use the arrow keys to read other points.`);
}

const versionAt = (at) => dense?.model_version[at];

/** Move the cursor by keys. */
function step(chart, event) {
  const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity }[event.key];
  if (by == null) return;
  event.preventDefault();
  const { plot, x } = chart, from = plot.cursor.left >= 0 && plot.cursor.idx != null ? plot.cursor.idx : x.length - (by < 0 ? 0 : 1);
  const at = Math.min(x.length - 1, Math.max(0, from + by));
  chart.readout.setAttribute("aria-live", "polite");
  plot.setCursor({ left: plot.valToPos(x[at], "x"), top: 10 });
}

// ---------------------------------------------------------------- the history

const empty = (x) => (x == null ? null : x);

/** Put the steps in which nothing happened back in: counts are 0 there, states stay, rates are unknown. */
function filled(found) {
  const n = found.time.length, steps = n ? Math.round((found.time[n - 1] - found.time[0]) / found.seconds) + 1 : 0;
  if (n < 2 || steps === n || steps > 6000) return found;
  const places = found.time.map((time) => Math.round((time - found.time[0]) / found.seconds));
  const spread = (values, fill) => {
    const out = new Array(steps).fill(fill);
    places.forEach((place, i) => (out[place] = values[i]));
    return out;
  };
  const carried = (values) => {
    const out = spread(values, undefined);
    for (let i = 1; i < steps; i++) if (out[i] === undefined) out[i] = out[i - 1];
    return out.map(empty);
  };
  const each = (table, how) => Object.fromEntries(Object.entries(table).map(([name, values]) => [name, how(values)]));
  const counts = (values) => spread(values, 0), rates = (values) => spread(values, null);
  const result = { ...found, time: Array.from({ length: steps }, (_, i) => found.time[0] + i * found.seconds) };
  for (const name of ["no_feedback", "learned", "failed", "events"]) result[name] = counts(found[name]);
  for (const name of ["lists", "closed", "clicked", "trouble"]) result[name] = each(found[name], counts);
  result.reciprocal_rank = each(found.reciprocal_rank, rates);
  result.weights = each(found.weights, carried);
  result.model_version = carried(found.model_version);
  if (found.guard) result.guard = { ...each(found.guard, carried), wins: counts(found.guard.wins), losses: counts(found.guard.losses) };
  return result;
}

/** Put the newest steps, from the live stream, behind what is known. */
function merged(known, news) {
  if (!known) return news;
  const [positions_shown, positions_clicked] = addedPositions(known, news), live = news;
  if (!news.time.length) return { ...known, live };
  const keep = known.time.findIndex((time) => time >= news.time[0]), n = keep < 0 ? known.time.length : keep;
  const drop = Math.max(0, n + news.time.length - 2000);
  const join = (a, b, fill) => [...(a || new Array(n).fill(fill)).slice(drop, n), ...(b || new Array(news.time.length).fill(fill))];
  const both = (a, b, fill) => Object.fromEntries([...new Set([...Object.keys(a || {}), ...Object.keys(b || {})])].map((name) => [name, join(a?.[name], b?.[name], fill)]));
  const result = { ...known, live, positions_shown, positions_clicked };
  for (const name of ["time", "no_feedback", "learned", "failed", "events", "model_version"]) result[name] = join(known[name], news[name], 0);
  for (const name of ["lists", "closed", "clicked", "trouble"]) result[name] = both(known[name], news[name], 0);
  for (const name of ["reciprocal_rank", "weights"]) result[name] = both(known[name], news[name], null);
  if (known.guard || news.guard) result.guard = both(known.guard, news.guard, null);
  const seen = new Set(known.marks.map((mark) => mark.time + mark.event));
  result.marks = [...known.marks, ...news.marks.filter((mark) => !seen.has(mark.time + mark.event))];
  return result;
}

/**
 * Add what the positions have got since the message before to those of the whole time.
 *
 * A message has them of its own steps together. Where it has begun with another step, what is new cannot be told: that waits for the
 * history to be read again.
 */
function addedPositions(known, news) {
  const before = known.live, whole = [known.positions_shown, known.positions_clicked];
  if (!before || (before.time.length && before.time[0] !== news.time[0])) return whole;
  const add = (all, now, then) => Array.from({ length: Math.max(all.length, now.length) }, (_, i) => (all[i] || 0) + (now[i] || 0) - (then[i] || 0));
  return [add(whole[0], news.positions_shown, before.positions_shown), add(whole[1], news.positions_clicked, before.positions_clicked)];
}

function stepOf(range) {
  const age = info ? Date.now() / 1000 - info.created : 0;
  const seconds = range === "all" ? age : RANGES[range];
  return seconds <= 1.3 * 86400 ? "minute" : seconds <= 80 * 86400 ? "hour" : "day";
}

/** Ask for the history of the chosen time; of a log that has ended, for its last days, not ours. */
async function readHistory(found) {
  const step = stepOf(range);
  const since = (start) => get(of(`/history?step=${step}${start == null ? "" : `&start=${start}`}`));
  if (range === "all") return since();
  const read = await since(Date.now() / 1000 - RANGES[range]);
  if (read.time.length || !(await found).impressions) return read;
  const last = (await since()).time.at(-1);
  return last == null ? read : since(last - RANGES[range]);
}

// ---------------------------------------------------------------- the panels

function showHead() {
  const state = guard?.state === "alarm" ? "alarm" : info.frozen ? "frozen" : info.mode === "shadow" ? "shadow" : "learns";
  for (const id of ["head", "tiles", "panels"]) $(id).hidden = false;
  setText("name", info.name);
  setText("state", { alarm: "alarm", frozen: "frozen", shadow: "shadow", learns: readOnly ? "learned" : "learns" }[state]);
  $("state").dataset.state = state;
  setText("recipe", `${typeof info.representation === "string" ? info.representation + " >> " : ""}${info.algorithm}`);
  setText("summary", guard ? guard.summary : info.impressions ? "No guard: it is not compared with your own order." : "No lists yet: rank some documents, and this page begins to move.");
  const warnings = info.warnings.filter((text) => !(guard?.state === "alarm" && text.startsWith("the guard"))); // the summary has it
  $("warnings").replaceChildren(...warnings.map((text) => element("li", text)));
  const raised = guard?.state === "alarm";
  $("freeze").disabled = info.frozen;
  $("resume").disabled = !info.frozen && !raised;
  setText("tile-lists", short(info.impressions));
  setText("tile-learned", short(info.learned));
  setText("tile-version", short(info.model_version));
  setText("tile-open", short(info.open));
  setText("tile-won", guard?.decisive ? percent(guard.win_rate) : "–");
}

function showHistory() {
  const shown = (dense = filled(hist)), x = shown.time;
  const closed = total(shown.closed, x.length), clicked = total(shown.clicked, x.length);
  setText("tile-clicked", sum(closed) ? percent(sum(clicked) / sum(closed)) : "–");
  showWins(shown, x);
  showReward(shown, x, closed, clicked);
  showWeights(shown, x);
  showKinds(shown, x);
  showPositions();
  const kinds = Object.keys(TROUBLE).filter((kind) => sum(shown.trouble[kind]));
  draw("chart-trouble", x, kinds.map((kind) => ({ label: kind.replaceAll("_", " "), colour: TROUBLE[kind], values: shown.trouble[kind], fill: 0.12 })), {
    time: true, range: [0], empty: x.length ? "No trouble: all values were there, finite and in range." : undefined,
  });
  draw("chart-events", x, [{ label: "events a second", colour: "--c1", values: shown.events.map((count) => count / shown.seconds), fill: 0.12, format: (y) => (y == null ? "–" : y >= 100 ? short(Math.round(y)) : decimal(y, y >= 10 ? 1 : 2)) }].filter(() => x.length), { time: true, range: [0] });
  showMarks();
}

const total = (table, n) => Object.values(table).reduce((all, values) => all.map((x, i) => x + values[i]), new Array(n).fill(0));

function showWins(shown, x) {
  const found = shown.guard, known = found && found.win_rate.some((rate) => rate != null);
  const nothing = info.guard ? "No decisive guard list yet." : "No guard: this ranker is not compared with your own order.";
  const alone = (y) => percent(y, 1);
  draw("chart-win", known ? x : [], known ? [
    { label: "upper", colour: "--c1", values: found.high, width: 0, silent: true, format: alone },
    { label: "lower", colour: "--c1", values: found.low, width: 0, silent: true, format: alone },
    { label: "won", colour: "--c1", values: found.win_rate, width: 2, format: alone },
    { label: "band from", colour: "--c8", values: found.low, width: 0, format: alone },
    { label: "to", colour: "--c8", values: found.high, width: 0, format: alone },
  ] : [], {
    time: true, empty: nothing, bands: [[1, 2, "--c1", 0.16]], levels: [[0.5, "as good as your order", "--muted"]], yFormat: (y) => percent(y, 0),
    range: (low, high) => [Math.max(0, Math.min(low ?? 0.4, 0.45) - 0.03), Math.min(1, Math.max(high ?? 0.6, 0.55) + 0.03)],
  });
  $("chart-win").parentElement.classList.toggle("slim", !known && !info.guard);
  const threshold = guard?.threshold;
  draw("chart-alarm", known ? x : [], known ? [
    { label: "statistic", colour: "--c2", values: found.statistic.map((value) => (value == null ? null : Math.max(value, 0.01))), told: found.statistic, format: (y) => (y == null ? "–" : compact.format(y)) },
  ] : [], {
    time: true, log: true, empty: "", levels: threshold ? [[threshold, `alarm at ${whole.format(threshold)}`, "--bad"]] : [],
    range: (low, high) => [Math.max(Math.min(low || 0.1, 0.1), 0.005), Math.max((threshold || 10) * 6, (high || 1) * 2)],
  });
}

/** The share of two counts in a moving window, so that few lists in a step do not look like news. */
function moving(part, whole_, width) {
  const out = [];
  let a = 0, b = 0;
  for (let i = 0; i < part.length; i++) {
    a += part[i];
    b += whole_[i];
    if (i >= width) {
      a -= part[i - width];
      b -= whole_[i - width];
    }
    out.push(b > 0 ? Math.max(0, a / b) : null);
  }
  return out;
}

function showReward(shown, x, closed, clicked) {
  const width = Math.max(1, Math.round(x.length / 40));
  const ranks = x.map((_, i) => sum(Object.keys(shown.closed).map((kind) => (shown.reciprocal_rank[kind]?.[i] || 0) * shown.closed[kind][i])));
  const some = sum(closed) > 0, raw = (part) => part.map((value, at) => (closed[at] ? value / closed[at] : null));
  const given = { time: true, range: [0], empty: info.impressions ? "No closed list with feedback yet." : undefined };
  const lines = (label, colour, part, format) => [
    { label: `${label}, one ${shown.step}`, colour, values: raw(part), width: 0.6, fade: 0.25, silent: true, format },
    { label, colour, values: moving(part, closed, width), width: 2, format },
  ];
  setText("hint-reward", `Of closed lists with feedback: the share with a click${width > 1 ? `; the bold line is a mean of ${width} ${shown.step}s` : ""}.`);
  draw("chart-reward", some ? x : [], some ? lines("with a click", "--c1", clicked, (y) => percent(y)) : [], { ...given, yFormat: (y) => percent(y, 0) });
  draw("chart-rank", some ? x : [], some ? lines("1 / position of the first click", "--c2", ranks, (y) => decimal(y)) : [], { ...given, empty: "", yFormat: (y) => decimal(y, 2) });
}

function showWeights(shown, x) {
  const size = ([, values]) => Math.abs(values[values.length - 1] ?? 0);
  const order = Object.entries(shown.weights).sort((a, b) => size(b) - size(a));
  $("all-weights-label").hidden = order.length <= 8;
  const some = ($("all-weights").checked ? order : order.slice(0, 8)).filter(([, values]) => values.some((value) => value));
  const left = order.length - some.length;
  setText("hint-weights", `What a feature adds; where it has a curve, how much the curve rises.${left > 0 && order.length > 8 && !$("all-weights").checked ? ` The 8 largest of ${order.length}.` : ""}`);
  let places = x.map((_, i) => i), given = { time: true };
  if ($("by-version").checked) {
    places = places.filter((i) => i === x.length - 1 || shown.model_version[i] !== shown.model_version[i + 1]);
    given = { xFormat: (version) => short(version), xTell: (version) => `version ${whole.format(version)}` };
    const seen = new Set(); // a version has one place, its last
    places = places.reverse().filter((i) => !seen.has(shown.model_version[i]) && seen.add(shown.model_version[i])).reverse();
    places.sort((a, b) => shown.model_version[a] - shown.model_version[b]);
  }
  const along = places.map((i) => ($("by-version").checked ? shown.model_version[i] : x[i]));
  // A feature keeps its colour while others overtake it: by its place among all, not among the largest.
  const names = Object.keys(shown.weights);
  const colours = new Map(), taken = new Set();
  for (const [feature] of some) {
    let at = names.indexOf(feature) % 8;
    for (let tries = 0; tries < 8 && taken.has(at); tries++) at = (at + 1) % 8;
    taken.add(at);
    colours.set(feature, at);
  }
  const sorted = some.map(([feature, values], i) => ({ label: feature, colour: `--c${colours.get(feature) + 1}`, dash: i >= 8 ? [4, 3] : undefined, values: places.map((at) => values[at]), format: (y) => decimal(y) }));
  draw("chart-weights", sorted.length ? along : [], sorted, { ...given, yFormat: (y) => String(+y.toPrecision(3)), empty: info.impressions ? "Nothing was learned in this time." : undefined });
}

function showKinds(shown, x) {
  const kinds = KINDS.filter((kind) => sum(shown.lists[kind]));
  const all = total(Object.fromEntries(kinds.map((kind) => [kind, shown.lists[kind]])), x.length);
  const width = Math.max(1, Math.round(x.length / 60));
  let below = new Array(x.length).fill(0);
  const series = kinds.map((kind, i) => {
    const share = moving(shown.lists[kind], all, width);
    below = below.map((value, j) => (share[j] == null ? null : value + share[j]));
    return { label: kind, colour: KIND_COLOURS[kind], values: below, told: share, width: 1, fill: i ? undefined : 0.3, format: (y) => percent(y, 0) };
  });
  const bands = kinds.slice(1).map((kind, i) => [i + 2, i + 1, KIND_COLOURS[kind], 0.3]);
  draw("chart-kinds", kinds.length ? x : [], series, { time: true, range: [0, 1], bands, yFormat: (y) => percent(y, 0) });
  const rows = [...KINDS, "old"].map((kind) => reward(shown, kind)).filter((row) => row.closed);
  $("kinds").hidden = !rows.length;
  $("kinds").tBodies[0].replaceChildren(...rows.map((row) => {
    const line = element("tr"), head = element("th", row.kind === "old" ? "before a change" : row.kind);
    head.scope = "row";
    line.append(head, element("td", short(row.closed)), element("td", percent(row.clicked / row.closed)), element("td", decimal(row.rank / row.closed)));
    return line;
  }));
  setText("cost", cost(rows));
}

function reward(shown, kind) {
  const closed = shown.closed[kind] || [], ranks = shown.reciprocal_rank[kind] || [];
  return { kind, closed: sum(closed), clicked: sum(shown.clicked[kind]), rank: sum(closed.map((count, i) => count * (ranks[i] || 0))) };
}

/** Say what exploration costs: explored lists against greedy ones, else against guard lists, else against the client's order. */
function cost(rows) {
  const by = Object.fromEntries(rows.map((row) => [row.kind, row]));
  const other = by.greedy || by.guard || by.baseline;
  if (!by.explored || !other || by.explored.closed < 30 || other.closed < 30) return "How lists were made, as a share of all.";
  const share = (row) => row.clicked / row.closed, noise = (row) => (share(row) * (1 - share(row))) / row.closed;
  const lost = share(other) - share(by.explored), error = 1.96 * Math.sqrt(noise(other) + noise(by.explored));
  const what = `${(100 * Math.abs(lost)).toFixed(1)} ± ${(100 * error).toFixed(1)} of 100 lists`;
  const against = { greedy: "than greedy lists", guard: "than guard lists", baseline: "than your own order" }[other.kind];
  if (Math.abs(lost) <= error) return `Explored lists had a click as often as others, as far as one can tell: the difference is ${what}.`;
  return `Explored lists had a click ${lost > 0 ? "less" : "more"} often ${against}: ${what}.`;
}

function showPositions() {
  const shown = hist.positions_shown, some = sum(shown) > 0;
  const places = some ? shown.map((_, i) => i + 1) : [];
  const share = shown.map((count, i) => (count ? hist.positions_clicked[i] / count : null));
  draw("chart-positions", places, some ? [{ label: "clicks per list", colour: "--c1", values: share, bars: true, width: 0, fill: 0.75, format: (y) => percent(y), rest: percent(sum(hist.positions_clicked) / shown[0]) + " over all positions" }] : [], {
    range: [0], xRange: [0.4, places.length + 0.6], xFormat: (place) => (Number.isInteger(place) ? String(place) : ""), yFormat: (y) => percent(y, 0),
    xTicks: () => places.filter((place) => places.length <= 12 || place === 1 || place % 5 === 0), xTell: (place) => `position ${place}: ${whole.format(hist.positions_clicked[place - 1])} clicks in ${whole.format(shown[place - 1])} lists`,
    empty: info.impressions ? "No closed list with feedback yet." : undefined,
  });
}

function showMarks() {
  const rows = [...hist.marks].reverse().slice(0, 200).map((mark) => {
    const row = element("tr"), what = element("td"), flag = element("span", MARK_WORDS[mark.event] || mark.event, "flag");
    flag.style.background = css((MARKS[mark.event] || ["", "--c8"])[1]);
    what.append(flag, element("span", mark.text));
    row.append(element("td", moment(mark.time)), what, element("td", whole.format(mark.model_version)));
    return row;
  });
  $("marks").tBodies[0].replaceChildren(...rows);
  $("marks").hidden = !rows.length;
  $("no-marks").hidden = rows.length > 0;
}

function showPulse() {
  const { time, rate, lag } = pulse;
  draw("chart-live", time.length > 1 ? [...time] : [], time.length > 1 ? [
    { label: "events a second", colour: "--c3", values: [...rate], fill: 0.1, format: (y) => (y == null ? "–" : short(Math.round(y))) },
    { label: "waiting for the learner", colour: "--c2", values: [...lag] },
  ] : [], { range: [0], xFormat: (second) => { const ago = Math.round(time[time.length - 1] - second); return ago ? `−${ago} s` : "now"; }, xTell: (second) => new Date(second * 1000).toLocaleTimeString("en-GB"), empty: "Waiting for the live stream." });
}

// ---------------------------------------------------------------- a list before and after, and curves

/** Run what needs an admin key; where it is refused, say so in its place and go on. */
async function asAdmin(place, work) {
  try {
    await work();
  } catch (error) {
    $(place).hidden = false;
    setText(place, error.status === 401 || error.slug === "wrong-scope" ? "This needs a key with the scope admin." : error.message);
    if (!(error instanceof Refused || error instanceof Silent)) console.error(error);
  }
}

async function readLists() {
  const asked = generation;
  await asAdmin("no-compare", async () => {
    const [found, known] = await Promise.all([get(of("/impressions")), get(of("/model/versions"))]);
    if (asked !== generation) return;
    lists = found;
    versions = known;
    const old = $("impression").value, [one, other] = [$("one").value, $("other").value];
    fill("impression", lists.map((each) => [each.impression_id, `${moment(each.time)} · ${each.kind} · version ${each.model_version}${each.clicked.length ? ` · ${each.clicked.length} clicked` : ""}`]), old);
    const names = versions.map((each) => [String(each.version), `${each.version}${each.current ? " (current)" : ""} · ${moment(each.time)}${labelOf(each)}`]);
    fill("one", names, one || "1");
    fill("other", names, other || String(info.model_version));
    if (!$("other").value && names.length) $("other").value = names[names.length - 1][0];
    $("compare-form").hidden = !lists.length;
    $("no-compare").hidden = lists.length > 0;
    setText("no-compare", info.impressions ? "None of the newest lists has its features still: they are dropped some time after learning (see --keep-features)." : "No lists yet.");
    $("compare").hidden = !lists.length;
    if (lists.length) await showComparison();
  });
}

function fill(id, choices, wanted) {
  $(id).replaceChildren(...choices.map(([value, text]) => {
    const made = element("option", text);
    made.value = value;
    return made;
  }));
  if (choices.some(([value]) => value === wanted)) $(id).value = wanted;
}

const showComparison = () => asAdmin("no-compare", async () => {
  const asked = generation;
  const query = new URLSearchParams({ impression: $("impression").value, one: $("one").value, other: $("other").value });
  const found = await get(of(`/compare?${query}`));
  if (asked !== generation) return;
  $("no-compare").hidden = true;
  $("compare").hidden = false;
  const length = Math.max(found.impression.shown.length, 1), clicked = new Set(found.impression.clicked);
  const places = (ranking) => new Map(ranking.map((each) => [each.id, each.position]));
  showRanking("one", found.one, places(found.other.ranking), clicked, length, -1);
  showRanking("other", found.other, places(found.one.ranking), clicked, length, 1);
});

/** List a ranking; a document's arrow says how far it is from its place in the other one. */
function showRanking(side, ranked, elsewhere, clicked, length, way) {
  setText(`title-${side}`, `Version ${whole.format(ranked.model_version)}`);
  $(`list-${side}`).replaceChildren(...ranked.ranking.slice(0, length).map((each) => {
    const there = elsewhere.get(each.id), moved = way > 0 ? there - each.position : 0;
    const item = element("li", null, moved > 0 ? "up" : moved < 0 ? "down" : "");
    const name = element("span", each.id, "id");
    if (clicked.has(each.id)) name.append(element("span", "clicked", "tag"));
    const move = element("span", moved ? `${moved > 0 ? "▲" : "▼"} ${Math.abs(moved)}` : way > 0 ? "·" : "", "move");
    if (moved) move.setAttribute("aria-label", `${Math.abs(moved)} places ${moved > 0 ? "up" : "down"}`);
    item.append(element("span", String(each.position)), name, element("span", decimal(each.score), "score"), move);
    return item;
  }));
}

const SVG = "http://www.w3.org/2000/svg";

const readCurves = () => asAdmin("no-curves", async () => {
  const asked = generation, found = (await get(of("/curves"))).curves.slice(0, 24);
  if (asked !== generation) return;
  const heights = found.flatMap((curve) => curve.heights), top = Math.max(0, ...heights), bottom = Math.min(0, ...heights);
  const learned = top > bottom;
  $("no-curves").hidden = learned;
  setText("no-curves", "Nothing was learned yet.");
  $("curves").replaceChildren(...(learned ? found.map((curve) => drawnCurve(curve, bottom, top)) : []));
});

function drawnCurve(curve, bottom, top) {
  const item = element("li"), drawing = document.createElementNS(SVG, "svg"), W = 140, H = 54;
  const from = curve.values[0], to = curve.values[curve.values.length - 1];
  const x = (value) => (to > from ? ((value - from) / (to - from)) * W : W / 2), y = (height) => H - 3 - ((height - bottom) / (top - bottom)) * (H - 6);
  const shape = (tag, attributes, className) => {
    const made = document.createElementNS(SVG, tag);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.setAttribute("class", className);
    drawing.append(made);
  };
  const most = Math.max(...curve.shares, 1e-9);
  curve.shares.forEach((share, i) => { // where the documents are
    const left = Math.max(0, Math.min(W, x(curve.edges[i]))), right = Math.max(0, Math.min(W, x(curve.edges[i + 1])));
    const height = (share / most) * H * 0.8;
    if (right > left) shape("rect", { x: left, y: H - height, width: right - left, height }, "seen");
  });
  shape("path", { d: `M0 ${y(0)}H${W}` }, "zero");
  const points = curve.values.map((value, i) => [x(value), y(curve.heights[i])]);
  const path = curve.shape === "steps"
    ? points.map(([px, py], i) => (i ? `H${px}V${py}` : `M0 ${py}`)).join("") + `H${W}`
    : `M0 ${points[0][1]}` + points.map(([px, py]) => `L${px} ${py}`).join("") + `L${W} ${points[points.length - 1][1]}`;
  shape("path", { d: path }, "path");
  drawing.setAttribute("viewBox", `0 0 ${W} ${H}`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `Curve of ${curve.name}: from ${decimal(curve.heights[0])} to ${decimal(curve.heights[curve.heights.length - 1])}`);
  const label = element("b", curve.name), axis = element("small");
  label.title = curve.name;
  axis.append(element("span", String(+from.toPrecision(3))), element("span", curve.domain), element("span", String(+to.toPrecision(3))));
  item.append(label, drawing, axis);
  return item;
}

// ---------------------------------------------------------------- reading, and following live

/** Open a ranker anew: everything is read, then the live stream is followed. */
async function open() {
  const asked = ++generation;
  pulse = { time: [], rate: [], lag: [] };
  try {
    const reading = name ? readAll(asked) : null; // at the same time
    reading?.catch(() => {}); // it is waited for below
    const rankers = await get("/v1/rankers");
    if (asked !== generation) return;
    say("");
    $("key-card").hidden = true;
    if (!rankers.length) return showNoRanker(asked);
    $("actions").hidden = readOnly;
    name = name || rankers[0].name;
    offer(rankers);
    document.title = `${name} · duelrank dashboard`;
    await (reading || readAll(asked));
    if (asked !== generation) return;
    follow(asked);
    readLists();
    readCurves();
  } catch (error) {
    if (asked !== generation) return;
    if (error.status === 404) return gone(asked);
    failed(error, () => asked === generation && open());
  }
}

function showNoRanker(asked) {
  setStatus("live", "Connected");
  $("ranker").replaceChildren(element("option", "no ranker yet"));
  $("head").hidden = false;
  $("tiles").hidden = $("panels").hidden = $("actions").hidden = true;
  setText("name", "No ranker yet");
  setText("state", "empty");
  setText("summary", "Create one with POST /v1/rankers (see /docs); this page looks again every few seconds.");
  name = "";
  setTimeout(() => asked === generation && open(), POLL);
}

/** Put rankers into the picker, where they are others than before; one that is not among them is not chosen. */
function offer(rankers) {
  const names = rankers.map((each) => each.name), there = names.includes(name);
  const choices = [...(there ? [] : [["", "choose a ranker …"]]), ...names.map((each) => [each, each])];
  $("ranker").disabled = false;
  if (JSON.stringify(choices) === offer.last && $("ranker").value === (there ? name : "")) return;
  offer.last = JSON.stringify(choices);
  fill("ranker", choices, there ? name : "");
}

/** Look for rankers that were created meanwhile. */
async function offerNew() {
  try {
    const rankers = await get("/v1/rankers");
    if (rankers.length) offer(rankers);
  } catch (error) {
    if (![Refused, Silent, TypeError].some((kind) => error instanceof kind)) console.error(error); // TypeError: the stream was cut
  } // the live stream tells what is wrong
}

/** Say that the ranker is not there (any more), and offer the others. */
async function gone(asked) {
  const known = info?.name === name;
  let rankers;
  try {
    rankers = await get("/v1/rankers");
  } catch (error) {
    if (asked === generation) failed(error, () => asked === generation && open());
    return;
  }
  if (asked !== generation) return;
  generation++; // nothing more is asked of it
  info = guard = hist = null;
  if ($("ask").open) $("ask").close();
  for (const id of ["head", "tiles", "panels"]) $(id).hidden = true;
  setStatus("off", "No such ranker");
  const what = known ? `The ranker ${name} was deleted.` : `There is no ranker ${name}; it may have been deleted.`;
  if (!rankers.length) return void ((name = ""), open());
  say(`${what} Choose another one at the top.`);
  offer(rankers);
}

async function readAll(asked) {
  const found = get(of());
  if (range === "all") info = await found; // how old it is says which steps to ask for
  const [now, watched, read] = await Promise.all([found, found.then((each) => (each.guard ? get(of("/guard")) : null)), readHistory(found)]);
  if (asked !== generation) return;
  [info, guard, hist] = [now, watched, read];
  show();
  readAll.at = Date.now();
}

function show() {
  showHead();
  showHistory();
  showPulse();
}

/** Say what went wrong, and what is done about it. */
function failed(error, again) {
  if (error.status === 401) {
    askForKey(key ? error.message : "");
    key = "";
    return;
  }
  setStatus("off", error instanceof Refused && error.status < 500 ? "Refused" : "No answer");
  say(error instanceof Refused ? error.message : "The service does not answer; this page tries again every few seconds.");
  if (error.status === 403 && page.keys === "yes") $("key-card").hidden = false;
  if (!(error instanceof Refused) || error.status >= 429) setTimeout(again, POLL);
  if (![Refused, Silent, TypeError].some((kind) => error instanceof kind)) console.error(error); // TypeError: the stream was cut
}

const POLLING = "Live stream cut: asking every few seconds";

/** Follow the live stream; while it is cut, ask every few seconds, and say so; while the page is out of sight, wait. */
async function follow(asked) {
  for (let tries = 0; asked === generation; tries++) {
    let paused = false;
    try {
      await listen(asked, () => (tries = 0));
    } catch (error) {
      if (asked !== generation) return;
      if (error.status === 401) return failed(error);
      paused = error.name === "AbortError";
    }
    if (asked !== generation) return;
    if (paused) {
      setStatus("waiting", "Paused while out of sight");
      await inSight();
      tries = 0;
    } else {
      if (!tries) setStatus("polling", POLLING);
      await new Promise((done) => setTimeout(done, RETRY[Math.min(tries, RETRY.length - 1)]));
    }
    if (asked !== generation) return;
    try {
      await readAll(asked);
      if (asked === generation && !paused) setStatus("polling", POLLING);
    } catch (error) {
      if (asked !== generation) return;
      if (error.status === 401) return failed(error);
      if (error.status === 404) return gone(asked);
      setStatus("off", "No answer: trying again every few seconds");
    }
  }
}

/** Wait until somebody can see the page. */
const inSight = () => new Promise((done) => {
  const look = () => {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", look);
    done();
  };
  document.addEventListener("visibilitychange", look);
  look();
});

/** Read the live stream to its end. A page out of sight ends it: a browser has six connections to a service, for all its tabs. */
async function listen(asked, heard) {
  const ending = new AbortController();
  let leaving;
  const look = () => {
    clearTimeout(leaving);
    if (document.hidden) leaving = setTimeout(() => ending.abort(), AWAY);
  };
  document.addEventListener("visibilitychange", look);
  look();
  try {
    await readStream(asked, heard, await request(of(`/live?step=${stepOf(range)}`), { signal: ending.signal }));
  } finally {
    clearTimeout(leaving);
    document.removeEventListener("visibilitychange", look);
  }
}

async function readStream(asked, heard, answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done || asked !== generation) return;
      waiting += value;
      const messages = waiting.split("\n\n");
      waiting = messages.pop();
      if (!messages.length) continue;
      heard();
      messages.forEach((message) => note(JSON.parse(message.slice(message.indexOf("data: ") + 6))));
      setStatus("live", readOnly ? "Live (only looking)" : "Live");
      if (Date.now() - readAll.at > REFRESH) await readAll(asked);
      else if (!document.hidden) show();
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Take a message of the live stream. */
function note(live) {
  const before = info?.model_version;
  info = live.ranker;
  guard = live.guard;
  hist = merged(hist, live.history);
  pulse.time.push(live.time);
  pulse.rate.push(live.events_per_second);
  pulse.lag.push(live.lag);
  for (const values of Object.values(pulse)) if (values.length > LIVE_POINTS) values.shift();
  setText("tile-lag", short(live.lag));
  setText("tile-rate", live.events_per_second == null ? "–" : short(Math.round(live.events_per_second)));
  if (before !== info.model_version && !(Date.now() - (note.curves || 0) < 10000) && !document.hidden) {
    note.curves = Date.now();
    readCurves();
    if (!lists.length) readLists();
  }
}

// ---------------------------------------------------------------- what visitors do

const QUESTIONS = {
  freeze: () => ["Freeze it?", `It serves version ${whole.format(info.model_version)} without exploring, and learns nothing until somebody resumes.`, "Freeze"],
  resume: () => ["Resume?", guard?.state === "alarm" ? "The alarm ends. The learned ranker decides lists again, is watched anew, and learns." : "It explores and learns again.", "Resume"],
  rollback: () => ["Roll back?", "The weights of an earlier version become a new version. What was learned since is not served any more; the log keeps it.", "Roll back"],
};

async function ask(action) {
  const [title, text, yes] = QUESTIONS[action]();
  setText("ask-title", title);
  setText("ask-text", text);
  setText("ask-yes", yes);
  $("ask-error").hidden = $("ask-key").hidden = true;
  $("ask-version").hidden = action !== "rollback";
  $("ask").dataset.action = action;
  $("ask").showModal();
  if (action === "rollback") await offerVersions();
}

const labelOf = (version) => (version.label ? ` · ${version.label}` : "");

const offerVersions = () => tryAsAdmin(async () => {
  versions = await get(of("/model/versions"));
  const earlier = versions.filter((each) => !each.current).reverse();
  fill("ask-select", earlier.map((each) => [String(each.version), `${each.version} · ${moment(each.time, true)}${labelOf(each)}`]));
  $("ask-yes").disabled = !earlier.length;
  if (!earlier.length) complain("There is no earlier version to go back to.");
});

function complain(text) {
  $("ask-error").hidden = false;
  setText("ask-error", text);
}

/** Do something in the dialog; where the key is not enough, ask for another one there. */
async function tryAsAdmin(work) {
  try {
    await work();
    return true;
  } catch (error) {
    const wantsKey = error.status === 401 || error.slug === "wrong-scope";
    $("ask-key").hidden = !wantsKey;
    complain(error.message);
    if (wantsKey) $("ask-key-input").focus();
    return false;
  }
}

async function answered(event) {
  event.preventDefault();
  const action = $("ask").dataset.action, typed = $("ask-key-input").value.trim(), asked = generation;
  if (typed && !$("ask-key").hidden) {
    key = typed;
    $("ask-key-input").value = "";
    if (action === "rollback" && !$("ask-select").value) {
      $("ask-error").hidden = $("ask-key").hidden = true;
      return offerVersions();
    }
  }
  $("ask-yes").disabled = true;
  const done = await tryAsAdmin(() => post(of(`/${action}`), action === "rollback" ? { version: Number($("ask-select").value) } : undefined));
  $("ask-yes").disabled = false;
  if (!done) return;
  $("ask").close();
  try {
    await readAll(asked);
    readLists();
    readCurves();
  } catch (error) {
    say(error.message);
  }
}

function start() {
  for (const action of Object.keys(QUESTIONS)) $(action).onclick = () => ask(action);
  $("ask-form").onsubmit = answered;
  $("ask-no").onclick = () => $("ask").close();
  $("ask").onclose = () => {
    $("ask-key-input").value = "";
    $("ask-yes").disabled = false;
  };
  $("key-form").onsubmit = (event) => {
    event.preventDefault();
    key = $("key").value.trim();
    $("key").value = "";
    open();
  };
  $("change-key").onclick = () => {
    $("key-card").hidden = false;
    $("key").focus();
  };
  $("ranker").onfocus = $("ranker").onpointerdown = offerNew;
  $("ranker").onchange = () => {
    if (!$("ranker").value) return;
    name = $("ranker").value;
    lists = [];
    window.history.replaceState(null, "", "/dashboard/" + encodeURIComponent(name));
    open();
  };
  $("ranges").onchange = (event) => {
    range = event.target.value;
    if (info) open();
  };
  $("by-version").onchange = $("all-weights").onchange = () => hist && showHistory();
  for (const id of ["impression", "one", "other"]) $(id).onchange = showComparison;
  $("compare-form").onsubmit = (event) => event.preventDefault();
  $("refresh-lists").onclick = readLists;
  matchMedia("(prefers-color-scheme: dark)").onchange = () => {
    [...charts.keys()].forEach(clear);
    if (hist) show();
  };
  document.addEventListener("visibilitychange", () => !document.hidden && hist && show());
  showPulse();
  if (page.keys === "yes") askForKey("");
  else open();
}

start();
