// The page of the playground. GET /play/search is the search engine; everything else is the public API.
"use strict";

const $ = (id) => document.getElementById(id);
let setup = null; // ranker, features, wishes
let shown = null; // the list that is open: query, impression, version, clicks, features as the ranker sees them
const before = new Map(); // query -> ids of the list that was shown last time

/** An element with text and children; text is never read as HTML. */
function h(tag, attributes, ...children) {
  const node = document.createElementNS(attributes?.svg ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "svg" || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((each) => each !== null));
  return node;
}
const g = (tag, attributes, ...children) => h(tag, { svg: true, ...attributes }, ...children);

/** One call of the service; an answer that is a problem becomes an error with its sentence. */
async function call(method, path, body, extra) {
  const options = { method, headers: body === undefined ? {} : { "Content-Type": "application/json" }, ...extra };
  if (body !== undefined) options.body = JSON.stringify(body);
  const silent = () => { throw Object.assign(new Error("The playground does not answer; was it stopped?"), { silent: true }); };
  const [answer, text] = await fetch(path, options).then(async (found) => [found, await found.text()]).catch(silent);
  if (answer.ok) return text ? JSON.parse(text) : null;
  throw Object.assign(new Error(sentence(text) || answer.statusText), { status: answer.status });
}
function sentence(text) {
  try {
    const problem = JSON.parse(text);
    return problem.detail || problem.title;
  } catch { return text; }
}
function trouble(error) {
  $("trouble").hidden = !error;
  $("trouble").textContent = error ? error.message : "";
}
/** What the visitor does, one thing after the other; where it fails, the page says why. */
let turn = Promise.resolve();
const attempt = (work) => (...given) => {
  turn = turn.then(() => work(...given)).then(() => trouble(null), trouble);
};
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// Search and click

const ranker = (rest = "") => `/v1/rankers/${setup.ranker}${rest}`;

/** Search as soon as what was begun before is done; the list on the screen is left. */
function ask(query) {
  query = query.trim();
  if (!query) return;
  $("done").disabled = true;
  attempt(search)(query);
}

async function search(query) {
  await leave();
  const found = await call("GET", `/play/search?q=${encodeURIComponent(query)}`);
  if (!found.candidates.length) {
    $("results").replaceChildren();
    $("said").textContent = "No document has these words; try others.";
    return;
  }
  const documents = found.candidates.map(({ id, features }) => ({ id, features }));
  const answer = await call("POST", ranker("/rank"), { documents, query, explain: true });
  const byId = new Map(found.candidates.map((each) => [each.id, each]));
  const ids = answer.ranking.map((each) => each.id);
  shown = { query, impression: answer.impression_id, version: answer.model_version, ids, clicks: [], scaled: scaled(found.candidates) };
  const last = before.get(query), chosen = await showMemory(query);
  $("results").replaceChildren(...answer.ranking.map((each) => result(shown, each, byId.get(each.id), last, chosen)));
  const moved = last ? ids.filter((id, place) => last.indexOf(id) !== place).length : 0;
  const compared = last ? `; ${moved ? `${moved} of ${ids.length} have moved since last time` : "the order is unchanged"}` : "";
  $("said").textContent = `${ids.length} of ${found.candidates.length} found, in the order of version ${answer.model_version}${compared}. Open what you like.`;
  before.set(query, ids);
  $("done").disabled = false;
}

/** The features of all candidates as the ranker sees them: from 0 to 1 within the query. */
function scaled(candidates) {
  const ranges = {};
  for (const name of Object.keys(setup.features)) {
    const values = candidates.map((each) => each.features[name]);
    ranges[name] = [Math.min(...values), Math.max(...values)];
  }
  const scale = (value, [low, high]) => (high > low ? (value - low) / (high - low) : 0);
  return new Map(candidates.map((each) => [each.id, Object.fromEntries(Object.entries(ranges).map(([name, range]) => [name, scale(each.features[name], range)]))]));
}

function result(list, ranked, candidate, last, chosen) {
  const opener = h("button", { type: "button", class: "open", "aria-expanded": "false", onclick: attempt(() => open(list, hit, ranked.id)) }, h("code", {}, ...breakable(candidate.id)), h("span", { class: "kind" }, candidate.kind));
  const place = h("div", { class: "place" }, h("span", { class: "hidden" }, "position "), String(ranked.position), last ? movement(last.indexOf(ranked.id), ranked.position - 1) : null);
  if (ranked.memory > 0) {
    const [style, mark, why] = chosen.has(ranked.id) ? ["badge chosen", "★ chosen before for this query", "Chosen before for this query"] : ["badge", "☆ raised once, to be tried", "Hardly seen for this query, so it is tried once"];
    opener.append(h("span", { class: style, title: `${why}: that adds ${ranked.memory.toFixed(2)} to its score of ${ranked.score.toFixed(2)}.` }, mark));
  }
  const words = h("div", {}, opener, h("p", { class: "summary" }, candidate.summary));
  const hit = h("li", { class: "card hit", "data-id": ranked.id }, place, words, bars(list.scaled.get(ranked.id), ranked.explain ?? {}));
  return hit;
}

/** A dotted name that may be broken after its dots and before its underscores. */
const breakable = (name) => name.split(/(?<=\.)|(?<=[^._])(?=_)/).flatMap((part, place) => (place ? [h("wbr", {}), part] : [part]));

function movement(from, to) {
  if (from === to) return null;
  const [style, sign, words] = from < 0 ? ["new", "new", "was not shown last time"] : from > to ? ["up", `▲ ${from - to}`, `up by ${from - to}`] : ["down", `▼ ${to - from}`, `down by ${to - from}`];
  return h("span", { class: `moved ${style}`, title: words }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "hidden" }, `, ${words}`));
}

/** The features of a document as small bars, coloured where they raise or lower its score. */
function bars(values, adds) {
  const said = Object.entries(values).map(([name, value]) => `${name} ${value.toFixed(2)}`).join(", ");
  const cells = Object.entries(values).map(([name, value]) => {
    const bar = h("b", {});
    bar.style.height = `${Math.round(100 * value)}%`;
    const sign = adds[name] > 1e-9 ? "plus" : adds[name] < -1e-9 ? "minus" : "";
    const title = `${name}: ${setup.features[name]}; ${value.toFixed(2)} here, adds ${(adds[name] ?? 0).toFixed(2)}`;
    return h("div", { class: sign, title }, h("i", {}, bar), name);
  });
  return h("div", { class: "features", role: "img", "aria-label": `Features: ${said}` }, ...cells);
}

/** A click: it opens the docstring, and counts where the list is still open. */
async function open(list, hit, id) {
  if (!hit.isConnected) return; // by now another list is on the screen, which was not what was clicked
  const opener = hit.querySelector(".open");
  const text = hit.querySelector("pre");
  if (text) {
    text.hidden = !text.hidden;
    opener.setAttribute("aria-expanded", String(!text.hidden));
    return;
  }
  if (shown === list && !list.clicks.includes(id)) {
    await call("POST", ranker("/feedback"), { impression_id: list.impression, clicks: [id] });
    list.clicks.push(id);
    hit.classList.add("clicked");
    opener.append(h("span", { class: "badge clicked-badge" }, "clicked"));
  }
  const found = await call("GET", `/play/document?id=${encodeURIComponent(id)}`);
  hit.append(h("pre", { tabindex: "0", "aria-label": `Docstring of ${id}` }, found.text));
  opener.setAttribute("aria-expanded", "true");
}

/** Leave the list: nothing more will come, so the ranker learns; then show what. Return that step, null where there is none. */
async function leave() {
  if (!shown) return null;
  const left = shown;
  shown = null;
  $("done").disabled = true;
  try {
    await call("POST", ranker("/feedback"), { impression_id: left.impression, close: true });
  } catch (error) {
    if (error.silent) { // it may be left when the playground answers again
      shown = left;
      $("done").disabled = false;
    }
    throw error;
  }
  for (let tries = 0; tries < 2400; tries++) { // until what was learned is served; the first time, that may have to be compiled
    if ((await call("GET", ranker())).model_version > left.version) {
      const step = await call("GET", ranker("/last-step"));
      showStep(step);
      await showMemory(left.query);
      return step;
    }
    await pause(25);
  }
  return null;
}

async function done(list) {
  if (shown !== list) return; // left already, by a search that was asked for before
  $("said").textContent = "The ranker learns …";
  const step = await leave();
  const again = h("button", { type: "button", onclick: () => { again.disabled = true; ask(list.query); } }, "Search again");
  const said = !step ? "The ranker has not processed this list yet. " : idle(step) ? "Nothing was learned from this list. " : "The ranker has learned from this list. ";
  $("said").replaceChildren(said, again);
  again.focus();
}

const idle = (step) => step.followed_length === 0;

function showStep(step) {
  for (const each of step.documents) {
    const hit = document.querySelector(`.hit[data-id="${CSS.escape(each.id)}"]`);
    if (!hit || each.examined === null) continue;
    hit.classList.toggle("unseen", !each.examined);
    hit.querySelector(".open").append(h("span", { class: "badge" }, each.examined ? "taken as seen" : "not seen"));
  }
  const clicks = step.documents.filter((each) => each.clicked).length;
  const seen = step.documents.filter((each) => each.examined).length;
  const asked = step.documents.some((each) => each.examined !== null);
  const looked = asked ? `; ${seen} of ${step.documents.length} documents are taken as seen` : "";
  const nothing = idle(step);
  $("step").hidden = false;
  $("step-said").textContent = nothing
    ? `${clicks ? "The clicks do not show which direction is better" : "No click"}, so nothing was learned.`
    : `${clicks} click${clicks === 1 ? "" : "s"}${looked}.`;
  $("angle").replaceChildren(...(nothing || !asked ? [] : [angle(step)]));
  const longest = Math.max(1e-9, ...Object.values(step.direction).map(Math.abs), ...Object.values(step.followed).map(Math.abs));
  $("directions").replaceChildren(...(nothing ? [] : Object.keys(step.followed).map((name) => row(name, [["", step.direction[name] / longest], ["", step.followed[name] / longest]], step.followed[name]))));
  $("directions-note").textContent = nothing ? "" : asked ? "Hollow: the direction of the clicks. Solid: the direction after the projection, which the ranker follows." : "The direction of the clicks, which the ranker follows: this algorithm has no projection.";
  showWeights(step.weights_after, step.weights_before);
  showCount(step.model_version, step.step);
}
function showCount(version, lists) {
  $("version").textContent = `version ${version}`;
  $("steps").textContent = lists ? `${lists} list${lists === 1 ? "" : "s"} learned from` : "no list yet";
}

const MEANING = "The clicks give a direction in which to move the weights. A part of it was explored by chance and changes no score of the documents that you have seen, so the clicks say nothing about it: the projection removes that part. The angle is between the direction before and after: 0° removes nothing, 90° everything.";
/** The projection as a picture: the direction above the space of what was seen, and its shadow. */
function angle(step) {
  const radians = (step.angle * Math.PI) / 180;
  const [x, y] = [12, 92];
  const long = Math.min(170, 80 / Math.sin(radians)); // as long as there is room
  const [tipX, tipY] = [x + long * Math.cos(radians), y - long * Math.sin(radians)];
  const kept = Math.max(0, Math.cos(radians));
  const after = Math.abs(step.followed_length - kept * step.direction_length) > 0.005 ? `then scaled to length ${step.followed_length.toFixed(2)}` : "";
  const words = `The projection keeps ${Math.round(100 * kept)}% of its length and turns it by ${step.angle.toFixed(0)}°${after && `; what is left is ${after}`}.`;
  return h("figure", { class: "plain", title: MEANING },
    g("svg", { viewBox: "0 0 360 116", role: "img", "aria-label": words },
      g("line", { class: "plane", x1: 8, y1: y, x2: 352, y2: y }),
      g("line", { class: "drop", x1: tipX, y1: tipY, x2: tipX, y2: y }),
      g("line", { class: "ray", x1: x, y1: y, x2: tipX, y2: tipY }),
      g("circle", { cx: tipX, cy: tipY, r: 4, fill: "currentColor" }),
      g("line", { class: "ray kept", x1: x, y1: y, x2: tipX, y2: y }),
      g("text", { x: 200, y: 24 }, `turned by ${step.angle.toFixed(0)}°`),
      g("text", { x: 200, y: 42 }, `keeps ${Math.round(100 * kept)}% of its length`),
      g("text", { x: 200, y: 60 }, after),
      g("text", { x: 8, y: 111 }, "the space of the documents that you have seen")),
    h("details", {}, h("summary", {}, `What does “turned by ${step.angle.toFixed(0)}°” mean?`), h("p", { class: "note" }, MEANING)));
}

/** One feature with bars to the left or right of the middle; values from −1 to 1. */
function row(name, values, number, marks = []) {
  const track = h("div", { class: "track" });
  for (const [style, value] of values) track.append(place(h("b", { class: `${style}${value < 0 ? " minus" : ""}` }), value));
  for (const node of marks) track.append(node);
  const said = values.map(([, value]) => value.toFixed(2)).join(" and ");
  const value = number === null ? "" : number.toFixed(2);
  return h("div", { class: "bar", "data-feature": name, title: setup.features[name] }, h("span", {}, name), track, h("span", { class: "value" }, value || h("span", { class: "hidden" }, said)));
}
function place(node, value) {
  const width = 50 * Math.min(1, Math.abs(value));
  node.style.width = `${width}%`;
  node.style.left = `${value < 0 ? 50 - width : 50}%`;
  return node;
}

function showWeights(weights, earlier) {
  const longest = Math.max(1e-9, ...Object.values(weights).map(Math.abs), ...Object.values(earlier).map(Math.abs));
  const rows = Object.keys(weights).map((name) => {
    const changed = Math.abs(weights[name] - earlier[name]) / longest > 0.005;
    return row(name, [["", earlier[name] / longest]], weights[name], changed ? [place(h("u", {}), earlier[name] / longest)] : []);
  });
  $("weights").replaceChildren(...rows);
  requestAnimationFrame(() => requestAnimationFrame(() => { // drawn where they were, they now move to where they are
    rows.forEach((each) => {
      const value = weights[each.dataset.feature] / longest;
      const bar = each.querySelector("b");
      bar.classList.toggle("minus", value < 0);
      place(bar, value);
    });
  }));
}

async function showModel() {
  const model = await call("GET", ranker("/model"));
  const weights = Object.fromEntries(Object.entries(model.weights).map(([name, value]) => [name, total(value)]));
  showWeights(weights, weights);
  showCount(model.model_version, (await call("GET", ranker())).learned);
}
/** What was learned before the page was opened; of an old list, the service has forgotten it. */
async function showLastStep() {
  try {
    showStep(await call("GET", ranker("/last-step")));
  } catch (error) { if (error.status !== 404) throw error; }
}
const total = (weight) => (Array.isArray(weight) ? weight.reduce((one, other) => one + other, 0) : weight);

/** Show what is remembered of a query: the documents that were chosen, which are returned, and how far the others fall. */
async function showMemory(query) {
  if (!setup.remembers) return new Set();
  const found = (await call("GET", ranker(`/memory?query=${encodeURIComponent(query)}`))).remembered[0];
  const documents = found ? found.documents : [];
  const chosen = documents.filter((each) => each.clicks > 0);
  const fallen = documents.filter((each) => !each.clicks && each.boost < 0);
  $("memory").hidden = !documents.length;
  $("memory-query").textContent = query;
  const times = (count) => (count > 1 ? ` (${count} times)` : "");
  $("memory-chosen").replaceChildren(...chosen.slice(0, 5).map((each) => h("li", {}, h("b", { class: each.boost < 0 ? "down" : "up" }, signed(each.boost)), h("span", {}, h("code", {}, ...breakable(each.id)), times(each.clicks)))));
  const most = Math.min(0, ...fallen.map((each) => each.boost));
  const rest = fallen.length ? ` ${fallen.length} ${fallen.length > 1 ? "others were" : "other was"} passed over, which takes away up to ${(-most).toFixed(2)}.` : "";
  $("memory-said").textContent = `${chosen.length ? "Added to scores, for this query alone." : "You have chosen nothing for this query yet."}${rest}`;
  $("forget-query").onclick = attempt(() => forgetQuery(query));
  return new Set(chosen.map((each) => each.id));
}
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

async function forgetQuery(query) {
  await call("DELETE", ranker(`/memory?query=${encodeURIComponent(query)}`));
  await showMemory(query);
  $("said").textContent = `What you chose for “${query}” is forgotten; the weights stay. Search again to see the difference.`;
  $("query").focus(); // the button is gone
}

async function forget() {
  shown = null;
  before.clear();
  $("done").disabled = true;
  $("results").replaceChildren();
  await call("POST", "/play/forget");
  $("step").hidden = $("memory").hidden = true;
  $("said").textContent = "Reset: the ranker is untrained again.";
  await showModel();
}

// Let users search

let wish = null; // what the visitor wants of the users, as it was accepted
let watching = false;
const SIDES = ["a", "b"];

/** What cannot be wrong. A recipe may be half typed, so it is sent only where it is asked for. */
function wishFromPage() {
  const taste = {};
  for (const input of $("taste").querySelectorAll("input")) taste[input.dataset.feature] = Number(input.value);
  return { ...wish, rate: lists(), noise: $("noise").value, taste, anew: false };
}
const recipes = () => ({ algorithms: SIDES.map((side) => $(`recipe-${side}`).value.trim()) });
const lists = () => Number((10 ** Number($("rate").value)).toPrecision(2)); // from 1 to 1,000; each step of the slider by a few percent

const start = () => tell({ ...recipes(), running: true });
async function stop() {
  showCrowd(await call("POST", "/play/users", { ...wish, running: false }));
}

async function tell(change) {
  const wanted = { ...wishFromPage(), ...change };
  const state = await call("POST", "/play/users", wanted);
  wish = { ...wanted, anew: false };
  showCrowd(state);
  watch();
}

/** Colour the track of a slider between its centre, which is 0, and its thumb. */
function fillFromCentre(input) {
  const value = Number(input.value);
  input.style.setProperty("--low", `${50 + 50 * Math.min(0, value)}%`);
  input.style.setProperty("--high", `${50 + 50 * Math.max(0, value)}%`);
  input.style.setProperty("--fill", value < 0 ? "var(--down)" : "var(--up)");
}
function slider(name, value) {
  const id = `taste-${name.replace(" ", "-")}`;
  const output = h("output", { for: id }, value.toFixed(1));
  const input = h("input", { id, type: "range", min: -1, max: 1, step: 0.1, value, "data-feature": name });
  const show = () => {
    output.textContent = Number(input.value).toFixed(1);
    fillFromCentre(input);
  };
  input.addEventListener("input", show);
  show();
  input.addEventListener("change", attempt(() => tell({})));
  return h("div", { class: "taste", title: setup.features[name] }, h("label", { for: id }, name), input, output);
}

/** Look again and again, as long as users search and somebody sees it. */
async function watch() {
  if (watching) return;
  watching = true;
  let said = ""; // what went wrong here, until it goes well again
  for (let round = 0; wish.running || round === 0; round++) {
    try {
      const state = await call("GET", "/play/users");
      if (said && $("trouble").textContent === said) trouble(null);
      said = "";
      showCrowd(state);
      if (round % 3 === 0 && state.lists && !state.error) await showBoth(state);
    } catch (error) {
      said = error.message;
      trouble(error);
      await pause(1000);
    }
    await pause(document.hidden ? 2000 : 250);
  }
  watching = false;
}

function showCrowd(state) {
  wish.running = state.running;
  wish.algorithms = state.sides.map((each) => each.algorithm);
  $("switch").textContent = state.running ? "Stop the users" : state.lists ? "Continue" : "Let users search";
  $("switch").setAttribute("aria-pressed", String(state.running));
  $("lists").textContent = state.lists.toLocaleString("en");
  $("speed").textContent = state.running ? `${Math.round(state.per_second).toLocaleString("en")} per second` : "no searches";
  state.sides.forEach((each, index) => {
    $(`name-${SIDES[index]}`).textContent = each.algorithm;
    $(`ndcg-${SIDES[index]}`).textContent = each.lately === null ? "–" : each.lately.toFixed(3);
    $(`overall-${SIDES[index]}`).textContent = each.overall === null ? "–" : each.overall.toFixed(3);
  });
  $("chart").replaceChildren(chart(state));
  if (state.error) trouble(new Error(state.error));
}

async function showBoth(state) {
  const models = await Promise.all(state.sides.map((each) => call("GET", `/v1/rankers/${each.ranker}/model`)));
  const all = models.map((each) => Object.fromEntries(Object.entries(each.weights).map(([name, value]) => [name, total(value)])));
  const longest = all.map((each) => Math.max(1e-9, ...Object.values(each).map(Math.abs)));
  const loudest = Math.max(1e-9, ...Object.values(wish.taste).map(Math.abs));
  $("both").replaceChildren(...Object.keys(setup.features).map((name) => {
    const mark = h("s", {});
    mark.style.left = `${50 + (50 * (wish.taste[name] ?? 0)) / loudest}%`;
    return row(name, SIDES.map((side, index) => [side, all[index][name] / longest[index]]), null, [mark]);
  }));
}

/** The nDCG of what users saw, over lists: two lines in an SVG. */
function chart(state) {
  const narrow = $("chart").clientWidth < 500;
  const [width, height, left, bottom, right] = [$("chart").clientWidth || 820, narrow ? 220 : 300, 34, 26, narrow ? 78 : 96];
  const n = Math.max(2, ...state.sides.map((each) => each.curve.length));
  const x = (index) => left + ((width - left - right) * (index + 0.5)) / n;
  const y = (value) => 8 + (height - 8 - bottom) * (1 - value);
  const parts = [];
  for (const value of [0, 0.2, 0.4, 0.6, 0.8, 1]) parts.push(g("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }), g("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(1)));
  parts.push(g("text", { x: left, y: height - 6 }, "0"), g("text", { x: width - right, y: height - 6, "text-anchor": "end" }, `${(n * state.per_point).toLocaleString("en")} lists`));
  const ends = state.sides.map((each) => (each.curve.length ? smooth(each.curve) : null));
  const spots = ends.map((each) => (each ? y(each.at(-1)) : 0));
  if (ends[0] && ends[1] && Math.abs(spots[0] - spots[1]) < 15) { // the names must not lie on each other
    const [upper, lower] = spots[0] <= spots[1] ? [0, 1] : [1, 0];
    const middle = (spots[0] + spots[1]) / 2;
    spots[upper] = middle - 8;
    spots[lower] = middle + 8;
  }
  state.sides.forEach((each, index) => {
    if (!ends[index]) return;
    parts.push(g("polyline", { class: `line-${SIDES[index]}`, points: ends[index].map((value, place) => `${x(place).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
    const name = each.algorithm.length > 11 ? `${each.algorithm.slice(0, 10)}…` : each.algorithm;
    parts.push(g("text", { class: `say-${SIDES[index]}`, x: x(ends[index].length - 1) + 8, y: spots[index] + 4 }, name));
  });
  const said = state.sides.map((each) => `${each.algorithm} ${each.lately === null ? "not started" : each.lately.toFixed(3)}`).join(", ");
  return g("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `nDCG@10 of the lists that users saw; now ${said}` }, ...parts);
}
/** Means of a few neighbours: single lists are good or bad by chance. */
function smooth(values) {
  const reach = Math.ceil(values.length / 40);
  return values.map((_, place) => {
    const near = values.slice(Math.max(0, place - reach), place + reach + 1);
    return near.reduce((one, other) => one + other, 0) / near.length;
  });
}

// Tabs and the beginning

function choose(tab) {
  for (const each of document.querySelectorAll("[role=tab]")) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    $(each.getAttribute("aria-controls")).hidden = !chosen;
  }
  history.replaceState(null, "", `#${tab.id.replace("tab-", "")}`); // no element has that id, so the browser does not scroll to it
}

async function begin() {
  setup = await call("GET", "/play/setup");
  wish = setup.wish;
  $("promise").hidden = !setup.remembers;
  $("about").textContent = `${setup.documents.toLocaleString("en")} docstrings of Python's standard library, and a ranker that learns which of them you want.`;
  $("taste").replaceChildren(...Object.keys(setup.features).map((name) => slider(name, wish.taste[name] ?? 0)));
  $("rate").value = Math.log10(wish.rate);
  $("rate-said").textContent = lists();
  $("noise").value = wish.noise;
  SIDES.forEach((side, index) => { $(`recipe-${side}`).value = wish.algorithms[index]; });
  showCrowd(await call("GET", "/play/users"));
  await showModel();
  await showLastStep();
  if (wish.running) watch();
  document.body.dataset.ready = "yes";
}

document.addEventListener("DOMContentLoaded", () => {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const tab of tabs) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = tabs[(tabs.indexOf(tab) + 1) % tabs.length];
      choose(other);
      other.focus();
    });
  }
  if (location.hash === "#crowd") choose($("tab-crowd"));
  $("form").addEventListener("submit", (event) => { event.preventDefault(); ask($("query").value); });
  for (const hint of $("hints").querySelectorAll("button")) hint.addEventListener("click", () => { $("query").value = hint.textContent; ask(hint.textContent); });
  $("done").addEventListener("click", () => { $("done").disabled = true; attempt(done)(shown); });
  $("forget").addEventListener("click", attempt(forget));
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("switch").addEventListener("click", () => attempt(wish.running ? stop : start)());
  $("anew").addEventListener("click", attempt(() => tell({ ...recipes(), anew: true })));
  $("rate").addEventListener("input", () => { $("rate-said").textContent = lists(); });
  for (const id of ["rate", "noise"]) $(id).addEventListener("change", attempt(() => tell({})));
  for (const side of SIDES) $(`recipe-${side}`).addEventListener("change", attempt(() => tell(recipes())));
  window.addEventListener("pagehide", () => { // whoever goes away has left the list too
    if (shown) call("POST", ranker("/feedback"), { impression_id: shown.impression, close: true }, { keepalive: true }).catch(() => {});
  });
  attempt(begin)();
});
