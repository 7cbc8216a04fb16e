// Words, numbers, small parts of the page, and charts over time with marks; used by panels.js, memory.js and dashboard.js.
"use strict";

const $ = (id) => document.getElementById(id);
const css = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
const faint = (colour, alpha) => colour + Math.round(alpha * 255).toString(16).padStart(2, "0");

// ---------------------------------------------------------------- words and numbers

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const percent = (x, digits = 1) => (x == null ? "–" : (100 * x).toFixed(digits) + "%");
const short = (x) => (x == null ? "–" : Math.abs(x) >= 100000 ? compact.format(x) : whole.format(x));
const decimal = (x, digits = 3) => (x == null ? "–" : x.toFixed(digits));
const CLOCK = { hour: "2-digit", minute: "2-digit" }, DAY = { day: "numeric", month: "short" };
const moment = (seconds, long) => new Date(seconds * 1000).toLocaleString("en-GB", { ...DAY, ...CLOCK, ...(long ? { year: "numeric", second: "2-digit" } : {}) });
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB", CLOCK);
const span = (from, to) => (to - from > 23 * 3600 ? moment(from) : `${moment(from)}–${clock(to)}`);
const ago = (seconds) => {
  const [amount, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"]].map(([length, word]) => [Math.floor(seconds / length), word])
    .find(([count]) => count) || [0, ""];
  return amount ? `${amount} ${unit}${amount > 1 ? "s" : ""} ago` : "just now";
};
const sum = (numbers) => (numbers || []).reduce((total, x) => total + (x || 0), 0);

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

// ---------------------------------------------------------------- charts

/** The letters and colours of what happened, the most important first. */
const MARKS = {
  alarm: ["A", "--bad"], rollback: ["B", "--warn"], freeze: ["F", "--c6"], resume: ["R", "--good"], promote: ["P", "--c4"],
  start: ["S", "--c8"], pin: ["V", "--c8"], unpin: ["V", "--c8"], change: ["C", "--c8"], label: ["L", "--c8"], forget: ["M", "--c8"],
};
const MARK_WORDS = { start: "restart", promote: "promotion", pin: "pin", unpin: "unpin" };
const LEAST_STEPS = 10; // of an axis over time, also where there are fewer yet
const charts = new Map(); // by the id of their place

/**
 * Draw lines in a place of the page, or bring them up to date.
 *
 * `series` has for each line: label, colour (a CSS variable), values, and where they differ from the usual: format, width, fill, dash,
 * told (what the legend tells in place of the values), rest (what it tells without a cursor), silent (not in the legend), bars,
 * whisker (the newest value and its standard deviation, for an error bar at the end).
 * `given` has: time (whether x is time, to now and with the marks), range (of y), log, levels (horizontal lines), bands, empty (what to
 * say where there is nothing to draw), xFormat.
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
  const height = place.classList.contains("tall") ? 300 : place.classList.contains("low") ? 120 : 190;
  const size = () => ({ width: Math.max(place.clientWidth, 200), height });
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
  const format = given.yFormat || series[0].format || short;
  const places = given.xTicks ? { splits: () => chart.given.xTicks() } : { incrs: COUNTS };
  const labels = given.xFormat ? { values: (plot, ticks) => ticks.map((tick) => chart.given.xFormat(tick)), ...places } : { values: TIMES };
  return {
    ...size,
    padding: [16, given.time || series.some((each) => each.whisker) ? 30 : 18, 0, 0], // half of the last label of a time sticks out
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false }, ...(given.time ? { sync: { key: "time" } } : {}) },
    scales: {
      x: { time: Boolean(given.time), range: (plot, low, high) => chart.given.xRange || along(chart, low, high) },
      y: { ...(given.log ? { distr: 3 } : {}), range: (plot, low, high) => chart.given.range(low, high) },
    },
    axes: [
      { ...axis, grid: { show: false }, size: given.time ? 38 : 26, gap: 6, space: given.time ? 76 : 50, ...labels },
      {
        ...axis, size: 50, gap: 5, ...(given.log ? { splits: powers, filter: (plot, splits) => splits } : {}),
        values: (plot, ticks) => ticks.map((tick) => (tick == null ? "" : format(tick))),
      },
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

/** Whether a series has so few values that a line alone says little. */
const few = (chart, i) => chart.series[i].values.filter((value) => value != null).length < 2 * LEAST_STEPS;

/** Powers of ten, a handful of them. */
function powers(plot, axis, low, high) {
  const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high)), by = Math.max(1, Math.ceil((last - first) / 4));
  return Array.from({ length: Math.floor((last - first) / by) + 1 }, (_, i) => 10 ** (first + i * by));
}

/** Distances between whole numbers on an axis. */
const COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000];

/** 24 hours and a day's name, whatever the language of the browser. */
const TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", null, null, null, null, null, null, 1],
  [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [60, "{HH}:{mm}", null, null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
];

/** Time goes to now, and begins with the first step, or some steps earlier where there are few. */
function along(chart, low, high) {
  if (!chart.given.time) return chart.x.length === 1 ? [low - 1, low + 1] : [low, high];
  return [Math.min(dense.time[0], dense.end - LEAST_STEPS * dense.seconds), dense.end];
}

/** Values from 0, to 1 where they are all 0. */
const fromZero = (low, high) => [0, (high || 1) * 1.08];
/** Shares from 0, to 1 at most. */
const upToOne = (low, high) => [0, Math.min(1, Math.max((high || 1) * 1.08, 0.1))];
/** Values around 0. */
const aroundZero = (low, high) => {
  const [bottom, top] = [Math.min(low ?? 0, 0), Math.max(high ?? 0, 0)], room = 0.08 * (top - bottom || 1);
  return [bottom - room, top + room];
};

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
  drawWhiskers(plot, chart.series.filter((each) => each.whisker), ratio);
  if (chart.given.time) drawMarks(plot, ratio);
  ctx.restore();
}

/** Draw error bars side by side, right of the lines. */
function drawWhiskers(plot, series, ratio) {
  const { ctx, bbox } = plot, y = (value) => plot.valToPos(value, "y", true);
  series.forEach(({ colour, whisker: [middle, by] }, i) => {
    const x = bbox.left + bbox.width + (5 + (24 * i) / Math.max(series.length, 8)) * ratio;
    ctx.fillStyle = css(colour);
    ctx.fillRect(x - 0.5 * ratio, y(middle + by), ratio, y(middle - by) - y(middle + by));
    ctx.fillRect(x - 1.5 * ratio, y(middle) - 1.5 * ratio, 3 * ratio, 3 * ratio);
  });
}

/** Draw a line for each mark, and badges with their letters above. */
function drawMarks(plot, ratio) {
  const { ctx, bbox } = plot;
  ctx.font = `600 ${9.5 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  const marks = hist.marks.map((mark) => ({ event: mark.event, x: Math.round(plot.valToPos(mark.time, "x", true)) }))
    .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
  ctx.setLineDash([2 * ratio, 3 * ratio]);
  for (const { event, x } of marks) {
    ctx.strokeStyle = css(markOf(event)[1]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  for (const { left, width, text, colour } of badgesOf(marks, bbox.left + bbox.width + 28 * ratio, ratio, (text) => ctx.measureText(text).width)) {
    ctx.fillStyle = css(colour);
    ctx.fillRect(left, bbox.top - 14 * ratio, width, 13 * ratio);
    ctx.fillStyle = css("--card");
    ctx.fillText(text, left + width / 2, bbox.top - 4.2 * ratio);
  }
}

const markOf = (event) => MARKS[event] || ["?", "--c8"];

/** Badges for marks in the order of time, left of an end; where two would touch, they are one, in the colour of the most important. */
function badgesOf(marks, end, ratio, widthOf) {
  const order = Object.keys(MARKS), badges = [];
  for (const mark of marks) {
    let among = [mark], badge = sized(among);
    while (badges.length && badges.at(-1).left + badges.at(-1).width + ratio > badge.left) badge = sized((among = [...badges.pop().among, ...among]));
    badges.push(badge);
  }
  return badges;
  function sized(among) {
    const events = among.map((mark) => mark.event), first = order.find((event) => events.includes(event));
    const [letter, colour] = markOf(first), text = events.length < 4 ? events.map((event) => markOf(event)[0]).join(" ") : `${letter}+${events.length - 1}`;
    const width = Math.max(widthOf(text) + 5 * ratio, 13 * ratio);
    return { among, text, colour, width, left: Math.min((among[0].x + among.at(-1).x - width) / 2, end - width) };
  }
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
  let said = pointed ? (given.time ? span(dense.time[at], x[at]) : given.xTell ? given.xTell(x[at]) : "") : "";
  if (pointed && given.time) {
    const near = hist.marks.filter((mark) => Math.abs(plot.valToPos(mark.time, "x") - plot.cursor.left) < 7);
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
