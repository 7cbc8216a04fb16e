// The dashboard of duelrank: shows all rankers, or reads one from the API, draws it, and follows it live.
// Plain JavaScript without a build step. All text goes into the page as textContent, never as markup.
"use strict";

// ---------------------------------------------------------------- what is known

const page = document.body.dataset;
const readOnly = page.readOnly === "yes";
const RANGES = { hour: 3600, day: 86400, week: 7 * 86400, month: 30 * 86400, all: Infinity }; // seconds
const POLL = 5000, REFRESH = 30000, RETRY = [1000, 2000, 5000], AWAY = 5000; // milliseconds
const LIVE_POINTS = 300;

let key = ""; // the API key: here and nowhere else
let name = page.name; // of the ranker that is open; "" while all are shown
let range = "day";
let info = null, guard = null, hist = null, versions = null;
let dense = null; // the history with the steps in which nothing happened
let pulse = { time: [], rate: [], lag: [] }; // the last minutes, from the live stream
let lists = [];
let generation = 0; // counts up when another ranker, range or key is chosen: what was asked for before is stale
let skew = 0; // seconds by which the service's clock is ahead of the browser's

const now = () => Date.now() / 1000 + skew;

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
const post = async (path, body) => {
  const headers = { "Content-Type": "application/json" };
  return (await request(path, { method: "POST", headers, body: body && JSON.stringify(body) })).json().catch(silent);
};
const of = (tail = "") => `/v1/rankers/${encodeURIComponent(name)}${tail}`;

function say(message) {
  $("notice").hidden = !message;
  setText("notice", message || "");
}

function setStatus(state, text) {
  $("status").dataset.state = state;
  setText("status-text", text);
}

/** Show the parts of the page for all ("all"), for one ("ranker", "experiment"), for none yet ("empty"), or nothing (""). */
function view(which) {
  for (const part of document.querySelectorAll("[data-view]")) part.hidden = part.dataset.view !== which;
  if (which) $("key-card").hidden = true;
  if (which !== "ranker") $("alarm").hidden = $("others").hidden = true;
}

function askForKey(message) {
  view("");
  $("key-card").hidden = false;
  setStatus("off", "An API key is needed");
  say(message);
}

// ---------------------------------------------------------------- reading, and following live

/** Open all rankers and experiments, or one: everything is read, then followed. */
async function open(said = "") {
  const asked = ++generation;
  pulse = { time: [], rate: [], lag: [] };
  try {
    const compared = name && (await get("/v1/experiments")).some((each) => each.name === name);
    if (asked !== generation) return;
    await (compared ? openExperiment(asked) : name ? openRanker(asked) : openAll(asked, said));
  } catch (error) {
    if (asked !== generation) return;
    if (error.status === 404 && name) return gone();
    failed(error, () => asked === generation && open());
  }
}

/** Go to a ranker, or to all (""), without loading the page anew: the key would be lost. */
function go(to, said) {
  if (location.pathname !== pathOf(to)) window.history.pushState(null, "", pathOf(to));
  name = to;
  lists = [];
  info = guard = hist = experiment = null;
  forgetMemory();
  $("others").hidden = true; // until this ranker's stream says which the others are
  if ($("ask").open) $("ask").close();
  open(said);
}

const pathOf = (ranker) => "/dashboard" + (ranker ? "/" + encodeURIComponent(ranker) : "");

async function openRanker(asked) {
  const [names] = await Promise.all([allNames(), readAll(asked)]);
  if (asked !== generation) return;
  say("");
  offer(names);
  document.title = `${name} · duelrank dashboard`;
  follow(asked);
  readLists();
  readCurves();
  readMemory();
}

/** Say that the ranker is not there (any more), and show the others. */
function gone() {
  const known = [info?.name, experiment?.name].includes(name), what = experiment ? "experiment" : "ranker";
  go("", known ? `The ${what} ${name} was deleted.` : `There is no ${what} ${name}; it may have been deleted.`);
}

const allNames = async () => (await Promise.all([get("/v1/rankers"), get("/v1/experiments")])).flat().map((each) => each.name);

/** Put rankers into the picker, where they are others than before. */
function offer(names) {
  $("ranker").disabled = false;
  if (JSON.stringify(names) !== offer.last) fill("ranker", [["", "All rankers"], ...names.map((each) => [each, each])]);
  offer.last = JSON.stringify(names);
  $("ranker").value = name;
}

/** Look for rankers that were created meanwhile. */
async function offerNew() {
  try {
    offer(await allNames());
  } catch (error) {
    if (unexpected(error)) console.error(error);
  } // the live stream tells what is wrong
}

// ---------------------------------------------------------------- all rankers

/** Show all rankers, again every few seconds. */
async function openAll(asked, said) {
  document.title = "duelrank dashboard";
  for (let first = true; asked === generation; first = false) {
    const [rankers, compared] = await Promise.all([get("/v1/overview"), get("/v1/experiments")]);
    if (asked !== generation) return;
    if (first) say(said);
    setStatus("live", readOnly ? "Only looking" : "Connected");
    view(rankers.length + compared.length ? "all" : "empty");
    offer([...rankers.map((each) => each.ranker.name), ...compared.map((each) => each.name)]);
    $("rankers").tBodies[0].replaceChildren(...rankers.map(overviewRow));
    $("experiment-list").tBodies[0].replaceChildren(...compared.map(experimentRow));
    if (!rankers.length) $("overview").hidden = true;
    if (!compared.length) $("experiments").hidden = true;
    if (!rankers.length && !compared.length) showFirstSteps();
    await new Promise((done) => setTimeout(done, POLL));
    await inSight();
  }
}

function overviewRow({ ranker, guard, lists_per_minute }) {
  const row = element("tr"), head = element("th"), phase = element("td"), pill = element("span", null, "pill");
  const alarm = guard?.last_alarm, raised = guard?.state === "alarm";
  head.scope = "row";
  head.append(linkTo(ranker.name));
  setPhase(pill, ranker, guard);
  phase.append(pill);
  if (raised) phase.append(element("p", sentence(alarm.happened)), element("p", sentence(alarm.consequence)));
  row.className = raised ? "raised" : "";
  row.onclick = (event) => event.target.closest("a") || getSelection().toString() || go(ranker.name);
  const cell = (label, text, bad) => {
    const made = element("td", text, bad ? "bad" : "");
    made.dataset.label = label;
    return made;
  };
  const rate = lists_per_minute;
  row.append(head, phase,
    cell("decides", percent(decides(ranker, guard), 0)),
    cell("lists a minute", rate >= 10 || !rate ? short(Math.round(rate)) : decimal(rate, 1)),
    cell("won lately", guard?.decisive ? percent(guard.lately, 0) : "–", losing(guard)),
    cell("last alarm", !guard ? "no guard" : alarm ? ago(now() - alarm.time) : "none"));
  return row;
}

/** A link to a ranker, which does not load the page anew. */
function linkTo(ranker, text = ranker) {
  const link = element("a", text);
  link.href = pathOf(ranker);
  link.onclick = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(ranker);
  };
  return link;
}

/** Show the commands that create a first ranker, rank and click. */
function showFirstSteps() {
  const key = page.keys === "yes" ? ` -H "Authorization: Bearer $DUELRANK_API_KEY"` : "";
  const send = (path, body) => `curl${key} -H 'Content-Type: application/json' ${location.origin}/v1/rankers/shop/${path} \\\n  -d '${JSON.stringify(body)}'`;
  const documents = [["a", 9, 3, 2], ["b", 8, 5, 1], ["c", 7, 4, 3]].map(([id, ...features]) => ({ id, features }));
  showCommand("first-steps", [
    `duelrank rankers create shop mgd-dsp --features bm25,rating,price --url ${location.origin}`,
    send("rank", { impression_id: "first", documents }),
    send("feedback", { impression_id: "first", clicks: ["b"], close: true }),
  ].join("\n"));
}

// ---------------------------------------------------------------- one ranker

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
  if (unexpected(error)) console.error(error);
}

const unexpected = (error) => ![Refused, Silent, TypeError].some((kind) => error instanceof kind); // TypeError: the stream was cut

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
      if (error.status === 404) return gone();
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
  skew = live.time - Date.now() / 1000;
  info = live.ranker;
  guard = live.guard;
  hist = merged(hist, live.history);
  pulse.time.push(live.time);
  pulse.rate.push(live.events_per_second);
  pulse.lag.push(live.lag);
  for (const values of Object.values(pulse)) if (values.length > LIVE_POINTS) values.shift();
  showOthers(live.alarms);
  setText("tile-lag", short(live.lag));
  setText("tile-rate", live.events_per_second == null ? "–" : short(Math.round(live.events_per_second)));
  if (before !== info.model_version && !(Date.now() - (note.curves || 0) < 10000) && !document.hidden) {
    note.curves = Date.now();
    readCurves();
    if (!lists.length) readLists();
  }
  followMemory(before !== info.model_version);
}

/** Say that other rankers have an alarm. */
function showOthers(names) {
  $("others").hidden = !names.length;
  if (names.join("\n") === showOthers.last) return;
  showOthers.last = names.join("\n");
  const links = names.slice(0, 5).flatMap((each, i) => [i ? ", " : "", linkTo(each)]);
  const more = names.length > 5 ? [", ", linkTo("", `${names.length - 5} more`)] : [];
  $("others").replaceChildren(element("strong", "Alarm of another ranker: "), ...links, ...more);
}

// ---------------------------------------------------------------- what visitors do

const QUESTIONS = {
  freeze: () => ["Freeze it?", `It serves version ${whole.format(info.model_version)} without exploring, and learns nothing until somebody resumes.`, "Freeze"],
  resume: (alarm) => ["Resume?", alarm
    ? "The alarm ends. The learned ranker decides lists again, on the first rung, is watched anew, and learns."
    : "It explores and learns again.", "Resume"],
  rollback: (alarm) => ["Roll back?", "The weights of an earlier version become a new version. What was learned since is not served any more; the log keeps it."
    + (alarm ? " The alarm stays: resume afterwards, so that this version is shown and learns." : ""), "Roll back"],
  stop: () => ["Stop it?", "It shows no new lists, for good; your search then has to show the list of one system. Open lists still count when they close, and the result stays.", "Stop"],
  "forget-query": (alarm, query) => ["Forget this query?", `What the users of “${query}” chose has no effect any more, until they choose again. The weights stay.`, "Forget"],
  "forget-document": (alarm, document) => ["Forget this document?", `Clicks and views of ${document} are forgotten in all queries, as if it had never been shown. The weights stay.`, "Forget"],
};
/** What each action sends; rollback sends the version that is chosen in the dialog. */
const SENT = {
  freeze: () => post(of("/freeze")),
  resume: () => post(of("/resume")),
  stop: () => post(ofExperiment("/stop")),
  rollback: () => post(of("/rollback"), { version: Number($("ask-select").value) }),
  "forget-query": (query) => request(of(`/memory?${new URLSearchParams({ query_key: query })}`), { method: "DELETE" }),
  "forget-document": (document) => request(of(`/memory?${new URLSearchParams({ document })}`), { method: "DELETE" }),
};

/** Ask before an action; `about` is what it is about: a query or a document. */
async function ask(action, about = "") {
  const [title, text, yes] = QUESTIONS[action](guard?.state === "alarm", about);
  setText("ask-title", title);
  setText("ask-text", text);
  setText("ask-yes", yes);
  $("ask-error").hidden = $("ask-key").hidden = true;
  $("ask-version").hidden = action !== "rollback";
  $("ask").dataset.action = action;
  ask.about = about;
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
  const done = await tryAsAdmin(() => SENT[action](ask.about));
  $("ask-yes").disabled = false;
  if (!done) return;
  $("ask").close();
  try {
    if (experiment) return await readExperiment(asked);
    await readAll(asked);
    readLists();
    readCurves();
    readMemory();
  } catch (error) {
    say(error.message);
  }
}

function start() {
  for (const button of document.querySelectorAll("[data-action]")) button.onclick = () => ask(button.dataset.action);
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
  $("ranker").onchange = () => go($("ranker").value);
  $("home").onclick = linkTo("").onclick;
  window.onpopstate = () => go(decodeURIComponent(location.pathname.slice("/dashboard/".length)));
  $("ranges").onchange = (event) => {
    range = event.target.value;
    if (info) open();
  };
  $("by-version").onchange = $("all-weights").onchange = () => hist && showHistory();
  for (const id of ["impression", "one", "other"]) $(id).onchange = showComparison;
  $("compare-form").onsubmit = (event) => event.preventDefault();
  $("refresh-lists").onclick = readLists;
  $("memory-form").onsubmit = lookUp;
  if (!readOnly) $("forget-query").onclick = () => ask("forget-query", memory.chosen);
  matchMedia("(prefers-color-scheme: dark)").onchange = () => {
    [...charts.keys()].forEach(clear);
    if (hist) show();
    if (experiment) readExperiment(generation).catch((error) => say(error.message));
  };
  document.addEventListener("visibilitychange", () => !document.hidden && hist && show());
  showPulse();
  if (page.keys === "yes") askForKey("");
  else open();
}

start();
