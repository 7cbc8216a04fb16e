// The panels of one ranker: its history, its lists before and after, its curves.
"use strict";

const KINDS = ["explored", "greedy", "guard", "baseline", "shadow"];
const KIND_COLOURS = { explored: "--c1", greedy: "--c3", guard: "--c4", baseline: "--c8", shadow: "--c6" };
const TROUBLE = { missing: "--c1", out_of_range: "--c7" };

// ---------------------------------------------------------------- the history

const empty = (x) => (x == null ? null : x);

/** When the time axis ends: now, or for a log that has ended long ago, with its last step. */
function endOf(found) {
  const last = found.time.at(-1) + found.seconds, shown = range === "all" ? last - found.time[0] : RANGES[range];
  return now() - last < shown ? now() : last;
}

/**
 * Put the steps in which nothing happened back in, to the end of the axis: counts are 0 there, states stay, rates are unknown.
 *
 * `at` is where the points are: at the end of their step, of the present step now.
 */
function filled(found) {
  if (!found.time.length) return { ...found, at: [], end: now() };
  const end = endOf(found), steps = Math.max(1, Math.ceil((end - found.time[0]) / found.seconds));
  if (steps > 6000) return { ...found, end, at: found.time.map((time) => Math.min(time + found.seconds, end)) };
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
  const result = { ...found, end, time: Array.from({ length: steps }, (_, i) => found.time[0] + i * found.seconds) };
  result.at = result.time.map((time) => Math.min(time + found.seconds, end));
  for (const name of ["no_feedback", "learned", "failed", "events"]) result[name] = counts(found[name]);
  for (const name of ["lists", "closed", "clicked", "trouble"]) result[name] = each(found[name], counts);
  result.reciprocal_rank = each(found.reciprocal_rank, rates);
  result.weights = each(found.weights, carried);
  result.deviations = each(found.deviations, carried);
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
  const both = (a, b, fill) => Object.fromEntries(Object.keys({ ...a, ...b }).map((name) => [name, join(a?.[name], b?.[name], fill)]));
  const result = { ...known, live, positions_shown, positions_clicked };
  for (const name of ["time", "no_feedback", "learned", "failed", "events", "model_version"]) result[name] = join(known[name], news[name], 0);
  for (const name of ["lists", "closed", "clicked", "trouble"]) result[name] = both(known[name], news[name], 0);
  for (const name of ["reciprocal_rank", "weights", "deviations"]) result[name] = both(known[name], news[name], null);
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

/** In which phase a ranker is: what it is called, in which colour, and what that means. */
function phaseOf(info, guard) {
  const place = guard && `rung ${guard.rung.number} of ${guard.rung.rungs}`;
  const phase = guard?.phase || (guard?.state === "alarm" ? "alarm" : guard && (guard.rung.number < guard.rung.rungs ? "climbing" : "full"));
  if (phase === "alarm") return ["alarm", "alarm", "The guard has raised an alarm."];
  if (info.frozen) return ["frozen", "frozen", "It neither explores nor learns until somebody resumes."];
  if (info.mode === "shadow") return ["shadow", "shadow", "Users see your own order; it learns from that."];
  if (phase === "imitating" || (!guard && info.imitated < info.imitate && !info.learned)) {
    const how = `${whole.format(info.imitated)} of ${whole.format(info.imitate)} lists`;
    return ["imitating", `imitating · ${how}`, "All lists have your own order, and it learns to give that order before it decides any."];
  }
  if (!guard) return ["learns", readOnly ? "learned" : "learns", "It decides all lists, without a guard."];
  if (phase === "climbing") return [phase, `climbing · ${place}`, "It decides more lists when the comparisons with your own order allow it."];
  return ["full", "full", "It is on the top rung."];
}

/** The share of lists that the learned ranker decides, of those that do not compare it. */
const decides = (info, guard) => (info.mode === "shadow" && info.pinned == null ? 0 : guard ? guard.learned_share : 1);

function setPhase(node, info, guard) {
  const [state, text, title] = phaseOf(info, guard);
  node.dataset.state = state;
  node.textContent = text;
  node.title = title;
}

function showHead() {
  view("ranker");
  setText("name", info.name);
  setPhase($("state"), info, guard);
  setText("decides", `decides ${percent(decides(info, guard), 0)} of lists`);
  setText("recipe", `${typeof info.representation === "string" ? info.representation + " >> " : ""}${info.algorithm}`);
  const raised = guard?.state === "alarm";
  showAlarm(raised);
  const alone = info.impressions ? "No guard: it is not compared with your own order." : "No lists yet: rank some documents, and this page begins to move.";
  setText("summary", raised ? "" : guard ? guard.summary : alone);
  const warnings = info.warnings.filter((text) => !(raised && text.startsWith("the guard"))); // the banner has it
  $("warnings").replaceChildren(...warnings.map((text) => element("li", text)));
  $("freeze").disabled = info.frozen;
  $("resume").disabled = !info.frozen;
  $("resume").hidden = $("rollback").hidden = raised; // the banner has them
  $("memory").hidden = !info.remembers;
  setText("tile-lists", short(info.impressions));
  setText("tile-learned", short(info.learned));
  setText("tile-version", short(info.model_version));
  setText("tile-won", guard?.decisive ? percent(guard.win_rate) : "–");
  setText("tile-lately", guard?.decisive ? percent(guard.lately) : "–");
  $("tile-lately").classList.toggle("bad", losing(guard));
}

/** Whether users prefer the client's own order lately, in enough comparisons to say so. */
const losing = (guard) => guard?.decisive >= 20 && guard.lately < 0.5;

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";

/** Say what has happened, what the service has done and what one can do; the statistic comes last.
 *  After a rollback by the guard the ranker goes on, so there is nothing to resume: for a day the banner only says so. */
function showAlarm(raised) {
  const alarm = guard?.last_alarm;
  const shown = alarm && (raised || (alarm.did === "rollback" && now() - alarm.time < 86400));
  $("alarm").hidden = !shown;
  if (!shown) return;
  $("alarm").classList.toggle("over", !raised);
  document.querySelectorAll("#alarm .remedy").forEach((each) => { each.hidden = !raised; });
  setText("alarm-happened", `Alarm: ${alarm.happened}.`);
  const [wins, losses, version, statistic, threshold, since, all] =
    [alarm.wins, alarm.losses, alarm.model_version, Math.round(alarm.statistic), guard.threshold, guard.wins, guard.decisive].map(whole.format);
  setText("alarm-done", `${sentence(alarm.consequence)} The alarm was raised at ${moment(alarm.time)}, with version ${version}.`);
  const after = guard.decisive && alarm.did === "baseline" ? ` Since then it won ${since} of ${all} comparisons.` : "";
  setText("alarm-evidence", `In all it had won ${wins} and lost ${losses} comparisons; the statistic ${statistic} reached ${threshold}.${after}`);
  if (readOnly) showCommand("alarm-command", `duelrank rankers resume ${info.name}\nduelrank rankers rollback ${info.name} VERSION`);
}

/** Put a command into its place, with a button that copies it. */
function showCommand(id, text) {
  const place = $(id), code = place.querySelector("code"), button = place.querySelector("button");
  if (code.textContent !== text) code.textContent = text;
  button.onclick = async () => {
    getSelection().selectAllChildren(code); // where the clipboard is closed to pages, one key is left to press
    await navigator.clipboard?.writeText(code.textContent).then(() => (button.textContent = "Copied"), () => {});
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };
}

function showHistory() {
  const shown = (dense = filled(hist)), x = shown.at;
  const closed = total(shown.closed, x.length), clicked = total(shown.clicked, x.length);
  setText("tile-clicked", sum(closed) ? percent(sum(clicked) / sum(closed)) : "–");
  showWins(shown, x);
  showReward(shown, x, closed, clicked);
  showWeights(shown, x);
  showKinds(shown, x);
  showPositions();
  const kinds = Object.keys(TROUBLE).filter((kind) => sum(shown.trouble[kind]));
  draw("chart-trouble", x, kinds.map((kind) => ({ label: kind.replaceAll("_", " "), colour: TROUBLE[kind], values: shown.trouble[kind], fill: 0.12 })), {
    time: true, range: fromZero, empty: x.length ? "No trouble: all values were there, finite and in range." : undefined,
  });
  showEvents(shown, x);
  showMarks();
}

/** Draw events a second; of the present step, when ten seconds of it are over, for few events say little. */
function showEvents(shown, x) {
  const rates = shown.events.map((count, i) => {
    const passed = x[i] - shown.time[i];
    return passed < 10 && i ? null : count / Math.max(passed, 10);
  });
  const format = (y) => (y == null ? "–" : y >= 100 ? short(Math.round(y)) : decimal(y, y >= 10 ? 1 : 2));
  draw("chart-events", x, x.length ? [{ label: "events a second", colour: "--c1", values: rates, fill: 0.12, format }] : [], { time: true, range: fromZero });
}

const total = (table, n) => Object.values(table).reduce((all, values) => all.map((x, i) => x + values[i]), new Array(n).fill(0));

function showWins(shown, x) {
  const found = shown.guard, known = found && sum(found.wins) + sum(found.losses) > 0;
  const none = guard?.phase === "imitating" ? "No comparison yet: it imitates your own order first." : "No comparison with your own order in this time.";
  const nothing = info.guard ? none : "No guard: this ranker is not compared with your own order.";
  const alone = (y) => percent(y, 1);
  const since = (values) => values.map((value, i) => (found.statistic[i] ? value : null)); // the first comparison
  draw("chart-win", known ? x : [], known ? [
    { label: "upper", colour: "--c1", values: since(found.high), width: 0, silent: true, format: alone },
    { label: "lower", colour: "--c1", values: since(found.low), width: 0, silent: true, format: alone },
    { label: "won in this period", colour: "--c1", values: since(found.win_rate), width: 2, format: alone },
    { label: "band from", colour: "--c8", values: found.low, width: 0, format: alone },
    { label: "to", colour: "--c8", values: found.high, width: 0, format: alone },
    { label: `of the last ${RECENT}`, colour: "--c2", values: recent(found.wins, found.losses), width: 1.25, format: alone },
  ] : [], {
    time: true, empty: nothing, bands: [[1, 2, "--c1", 0.16]], levels: [[0.5, "as good as your order", "--muted"]], yFormat: (y) => percent(y, 0),
    range: (low, high) => [Math.max(0, Math.min(low ?? 0.4, 0.45) - 0.03), Math.min(1, Math.max(high ?? 0.6, 0.55) + 0.03)],
  });
  $("chart-win").parentElement.classList.toggle("slim", !known && !info.guard);
  const threshold = guard?.threshold, top = (threshold || 10) * 10; // after an alarm it grows without end
  const format = (y) => (y == null ? "–" : y > top ? `above ${compact.format(top)}` : compact.format(y));
  const statistic = (values) => since(values).map((value) => value && Math.min(Math.max(value, 0.01), top));
  draw("chart-alarm", known ? x : [], known ? [{ label: "statistic", colour: "--c2", values: statistic(found.statistic), told: found.statistic, format }] : [], {
    time: true, log: true, empty: "", levels: threshold ? [[threshold, `alarm at ${whole.format(threshold)}`, "--bad"]] : [],
    range: (low) => [Math.max(Math.min(low || 0.1, 0.1), 0.005), top],
  });
}

const RECENT = 100; // comparisons

/** The share of wins in as many of the latest steps as have enough comparisons. */
function recent(wins, losses) {
  let from = 0, won = 0, all = 0;
  return wins.map((count, i) => {
    won += count || 0;
    all += (count || 0) + (losses[i] || 0);
    for (let first; (first = (wins[from] || 0) + (losses[from] || 0)) <= all - RECENT && from < i; from++) {
      won -= wins[from] || 0;
      all -= first;
    }
    return all >= RECENT / 5 ? won / all : null;
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
  const rank = "1 / position of the first click";
  const given = { time: true, range: upToOne, empty: info.impressions ? "No closed list with feedback yet." : undefined };
  const lines = (label, colour, part, format) => [
    { label: `${label}, one ${shown.step}`, colour, values: raw(part), width: 0.6, fade: 0.25, silent: true, format },
    { label, colour, values: moving(part, closed, width), width: 2, format },
  ];
  setText("hint-reward", `Of closed lists with feedback: the share with a click${width > 1 ? `; the bold line is a mean of ${width} ${shown.step}s` : ""}.`);
  draw("chart-reward", some ? x : [], some ? lines("with a click", "--c1", clicked, (y) => percent(y)) : [], { ...given, yFormat: (y) => percent(y, 0) });
  draw("chart-rank", some ? x : [], some ? lines(rank, "--c2", ranks, (y) => decimal(y)) : [], { ...given, empty: "", yFormat: (y) => decimal(y, 2) });
}

function showWeights(shown, x) {
  const size = ([, values]) => Math.abs(values[values.length - 1] ?? 0);
  const order = Object.entries(shown.weights).sort((a, b) => size(b) - size(a));
  $("all-weights-label").hidden = order.length <= 8;
  const some = ($("all-weights").checked ? order : order.slice(0, 8)).filter(([, values]) => values.some((value) => value));
  const left = order.length > Math.max(some.length, 8) && !$("all-weights").checked;
  const sure = Object.keys(shown.deviations).length ? " ± and the bars at the end are one standard deviation." : "";
  setText("hint-weights", `What a feature adds; where it has a curve, how much the curve rises.${left ? ` The 8 largest of ${order.length}.` : ""}${sure}`);
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
  const format = (told) => `${decimal(told?.[0])}${told?.[1] == null ? "" : `\u00a0±\u00a0${decimal(told[1])}`}`;
  const lines = some.map(([feature, values], i) => ({
    label: feature, colour: `--c${colours.get(feature) + 1}`, dash: i >= 8 ? [4, 3] : undefined, values: places.map((at) => values[at]), format,
    told: places.map((at) => (values[at] == null ? null : [values[at], shown.deviations[feature]?.[at]])),
  }));
  for (const line of lines) line.whisker = line.told.findLast((told) => told?.[1] != null);
  const ends = lines.flatMap(({ whisker }) => (whisker ? [whisker[0] - whisker[1], whisker[0] + whisker[1]] : []));
  given.range = (low, high) => aroundZero(Math.min(low ?? 0, ...ends), Math.max(high ?? 0, ...ends));
  const empty = info.impressions ? "Nothing was learned in this time." : undefined;
  draw("chart-weights", lines.length ? along : [], lines, { ...given, yFormat: (y) => String(+y.toPrecision(3)), empty });
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
  draw("chart-kinds", kinds.length ? x : [], series, { time: true, range: () => [0, 1], bands, yFormat: (y) => percent(y, 0) });
  showCost(shown, x.length);
}

/** Show how often lists of each kind had a click, and explored ones in the same periods. */
function showCost(shown, steps) {
  const width = Math.max(1, Math.round(steps / PERIODS)), length = width * shown.seconds;
  const counts = (kind) => ({ kind, closed: sum(shown.closed[kind]), clicked: sum(shown.clicked[kind]) });
  const some = [...KINDS, "old"].map((kind) => ({ ...counts(kind), ...samePeriods(shown, kind, steps, width) })).filter((row) => row.closed);
  $("kinds").hidden = !some.length;
  $("kinds").tBodies[0].replaceChildren(...some.map((row) => {
    const line = element("tr"), head = element("th", row.kind === "old" ? "before a change" : row.kind);
    head.scope = "row";
    line.append(head, element("td", short(row.closed)), element("td", percent(row.clicked / row.closed)));
    line.append(element("td", row.weight ? percent(row.own) : "–"), element("td", row.weight ? percent(row.explored) : "–"));
    return line;
  }));
  setText("cost", cost(some, length));
  const skipped = Object.entries(info.skipped_by_reason || {}).filter(([, count]) => count).map(([reason, count]) => `${short(count)} ${reason}`);
  setText("skipped", skipped.length ? `Lists with feedback that were not learned from, since the beginning: ${skipped.join(", ")}.` : "");
}

const PERIODS = 48; // of the shown time, at most: lists of the same period are compared

/**
 * Compare a kind of lists with the explored ones of the same periods: the ranker, its users and the share that explores change.
 *
 * The difference is that of Mantel and Haenszel; its error is the one of their test, which holds for few lists in a period.
 */
function samePeriods(shown, kind, steps, width) {
  const found = { weight: 0, own: 0, explored: 0, error: 0 };
  if (kind === "explored" || !shown.closed[kind] || !shown.closed.explored) return found;
  const of = (table, name, from) => sum(shown[table][name].slice(from, from + width));
  for (let from = 0; from < steps; from += width) {
    const n = of("closed", "explored", from), m = of("closed", kind, from), all = n + m;
    if (!n || !m) continue;
    const a = of("clicked", "explored", from), b = of("clicked", kind, from), clicks = a + b;
    found.weight += (n * m) / all;
    found.explored += (m * a) / all;
    found.own += (n * b) / all;
    found.error += (n * m * clicks * (all - clicks)) / (all * all * (all - 1));
  }
  const { weight, own, explored, error } = found;
  return weight ? { weight, own: own / weight, explored: explored / weight, error: (1.96 * Math.sqrt(error)) / weight } : found;
}

/** Say what exploration costs: explored lists against greedy ones, else against guard lists, else against the client's order. */
function cost(rows, length) {
  const other = ["greedy", "guard", "baseline"].map((kind) => rows.find((row) => row.kind === kind && row.weight)).find(Boolean);
  if (!other || other.weight < 15) return "How lists were made, as a share of all.";
  const lost = other.own - other.explored, what = `${(100 * Math.abs(lost)).toFixed(1)} ± ${(100 * other.error).toFixed(1)} of 100 lists`;
  const against = { greedy: "than greedy lists", guard: "than guard lists", baseline: "than your own order" }[other.kind];
  const [size, unit] = length < 3600 ? [60, "minute"] : length < 86400 ? [3600, "hour"] : [86400, "day"], count = Math.round(length / size);
  const within = count > 1 ? `${count} ${unit}s` : unit;
  const often = Math.abs(lost) <= other.error ? `as often as ${other.kind} ones, as far as one can tell` : `${lost > 0 ? "less" : "more"} often ${against}`;
  return `Within the same ${within}, explored lists had a click ${often}: the difference is ${what}.`;
}

function showPositions() {
  const shown = hist.positions_shown, some = sum(shown) > 0;
  const places = some ? shown.map((_, i) => i + 1) : [];
  const share = shown.map((count, i) => (count ? hist.positions_clicked[i] / count : null));
  const format = (y) => decimal(y, 2), rest = `${format(sum(hist.positions_clicked) / shown[0])} over all positions`;
  const series = { label: "clicks per list", colour: "--c1", values: share, bars: true, width: 0, fill: 0.75, format, rest };
  draw("chart-positions", places, some ? [series] : [], {
    range: fromZero, xRange: [0.4, places.length + 0.6], xFormat: (place) => (Number.isInteger(place) ? String(place) : ""),
    xTicks: () => places.filter((place) => places.length <= 12 || place === 1 || place % 5 === 0),
    xTell: (place) => `position ${place}: ${whole.format(hist.positions_clicked[place - 1])} clicks in ${whole.format(shown[place - 1])} lists`,
    empty: info.impressions ? "No closed list with feedback yet." : undefined,
  });
}

function showMarks() {
  const rows = [...hist.marks].reverse().slice(0, 200).map((mark) => {
    const row = element("tr"), what = element("td"), flag = element("span", MARK_WORDS[mark.event] || mark.event, "flag");
    flag.style.background = css(markOf(mark.event)[1]);
    what.append(flag, element("span", mark.text));
    row.append(element("td", moment(mark.time)), what, element("td", whole.format(mark.model_version)));
    return row;
  });
  $("marks").tBodies[0].replaceChildren(...rows);
  $("marks").hidden = !rows.length;
  $("no-marks").hidden = rows.length > 0;
}

function showPulse() {
  const { time, rate, lag } = pulse, last = time.at(-1), length = last - time[0] > 60 ? LIVE_POINTS : 60; // seconds
  draw("chart-live", time.length > 1 ? [...time] : [], time.length > 1 ? [
    { label: "events a second", colour: "--c3", values: [...rate], fill: 0.1, format: (y) => (y == null ? "–" : short(Math.round(y))) },
    { label: "waiting for the learner", colour: "--c2", values: [...lag] },
  ] : [], {
    range: fromZero, yFormat: (y) => String(+y.toPrecision(3)), empty: "Waiting for the live stream.",
    xRange: [last - length, last], xTicks: () => [4, 3, 2, 1, 0].map((part) => last - (part * length) / 4),
    xFormat: (second) => (last - second >= 0.5 ? `−${Math.round(last - second)} s` : "now"), xTell: (second) => new Date(second * 1000).toLocaleTimeString("en-GB"),
  });
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
    const told = (each) => [moment(each.time), each.kind, `version ${each.model_version}`, ...(each.clicked.length ? [`${each.clicked.length} clicked`] : [])];
    fill("impression", lists.map((each) => [each.impression_id, told(each).join(" · ")]), old);
    const names = versions.map((each) => [String(each.version), `${each.version}${each.current ? " (current)" : ""} · ${moment(each.time)}${labelOf(each)}`]);
    fill("one", names, one || "1");
    fill("other", names, other || String(info.model_version));
    if (!$("other").value && names.length) $("other").value = names[names.length - 1][0];
    $("compare-form").hidden = !lists.length;
    $("no-compare").hidden = lists.length > 0;
    const dropped = "None of the newest lists has its features still: they are dropped some time after learning (see --keep-features).";
    setText("no-compare", info.impressions ? dropped : "No lists yet.");
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
    if (each.memory) name.append(memoryTag(each.memory));
    const move = element("span", moved ? `${moved > 0 ? "▲" : "▼"} ${Math.abs(moved)}` : way > 0 ? "·" : "", "move");
    if (moved) move.setAttribute("aria-label", `${Math.abs(moved)} places ${moved > 0 ? "up" : "down"}`);
    item.append(element("span", String(each.position)), name, element("span", decimal(each.score), "score"), move);
    return item;
  }));
}

const SVG = "http://www.w3.org/2000/svg";

const readCurves = () => asAdmin("no-curves", async () => {
  const asked = generation, all = (await get(of("/curves"))).curves, found = all.slice(0, 24);
  if (asked !== generation) return;
  showUncertain(all);
  const heights = found.flatMap((curve) => curve.heights), top = Math.max(0, ...heights), bottom = Math.min(0, ...heights);
  const learned = top > bottom;
  $("no-curves").hidden = learned;
  setText("no-curves", "Nothing was learned yet.");
  $("curves").replaceChildren(...(learned ? found.map((curve) => drawnCurve(curve, bottom, top)) : []));
});

/** Name the features that exploring varies most: their effect on rankings is the least certain. */
function showUncertain(curves) {
  const some = curves.filter((curve) => curve.uncertainty).sort((a, b) => b.uncertainty - a.uncertainty).slice(0, 3);
  $("explores").hidden = !some.length;
  const names = some.map((curve) => curve.name).join(", ");
  setText("explores", `What it would explore: ${names}. Their effect on the order of documents is the least certain.`);
}

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
