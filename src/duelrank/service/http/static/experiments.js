// Experiments: their list among all rankers, and the page of one, with a chart for each pair of systems.
"use strict";

let experiment = null; // the experiment that is open

const ofExperiment = (tail = "") => `/v1/experiments/${encodeURIComponent(name)}${tail}`;

function experimentRow(each) {
  const row = element("tr"), head = element("th"), state = element("td"), pill = element("span", null, "pill");
  head.scope = "row";
  head.append(linkTo(each.name));
  setExperimentState(pill, each);
  state.append(pill, element("p", sentence(each.verdict)));
  row.onclick = (event) => event.target.closest("a") || getSelection().toString() || go(each.name);
  const cell = (label, value) => {
    const made = element("td", short(value));
    made.dataset.label = label;
    return made;
  };
  row.append(head, state, cell("systems", each.systems.length + each.rankers.length), cell("lists", each.lists), cell("decisive", each.decisive));
  return row;
}

function setExperimentState(pill, each) {
  const proved = each.pairs.some((pair) => pair.better);
  pill.textContent = each.stopped ? "stopped" : proved ? "decided" : "undecided";
  pill.dataset.state = each.stopped ? "frozen" : proved ? "full" : "climbing";
}

/** Show one experiment, again every few seconds. */
async function openExperiment(asked) {
  document.title = `${name} · duelrank dashboard`;
  clearPairs();
  for (let first = true; asked === generation; first = false) {
    await readExperiment(asked);
    if (asked !== generation) return;
    if (first) {
      say("");
      view("experiment");
      offer(await allNames());
    }
    setStatus("live", readOnly ? "Only looking" : "Connected");
    await new Promise((done) => setTimeout(done, POLL));
    await inSight();
  }
}

async function readExperiment(asked) {
  const [found, history] = await Promise.all([get(ofExperiment()), get(ofExperiment("/history"))]);
  if (asked !== generation) return;
  experiment = found;
  showExperiment(found);
  view("experiment"); // charts need their width
  showPairs(found, history);
}

function showExperiment(found) {
  setText("experiment-name", found.name);
  setExperimentState($("experiment-state"), found);
  setText("experiment-verdict", sentence(found.verdict));
  setText("experiment-method", found.multileaver);
  setText("experiment-since", `since ${moment(found.created)}`);
  $("experiment-warnings").replaceChildren(...found.warnings.map((each) => element("li", sentence(each))));
  $("experiment-stop").hidden = Boolean(found.stopped);
  for (const count of ["lists", "counted", "clicked", "decisive", "open", "waiting"]) setText(`count-${count}`, short(found[count]));
  const others = [["no_feedback", "without feedback"], ["repeated", "from users who had voted that day"], ["failed", "failed"]];
  const said = others.filter(([key]) => found[key]).map(([key, words]) => `${short(found[key])} ${words}`);
  const waits = found.waiting ? `Lists count in the order in which they were shown: ${short(found.waiting)} wait for an earlier one that is open, for at most ${length(found.close_after)}.` : "";
  setText("experiment-rest", [waits, said.length ? `Not counted: ${said.join(", ")}.` : ""].filter(Boolean).join(" "));
}

/** A length of time in words. */
function length(seconds) {
  const [unit, word] = seconds >= 7200 ? [3600, "hours"] : seconds >= 120 ? [60, "minutes"] : [1, "seconds"];
  return `${decimal(seconds / unit, seconds % unit ? 1 : 0)} ${word}`;
}

function clearPairs() {
  [...charts.keys()].filter((id) => id.startsWith("pair-")).forEach(clear);
  $("pair-charts").replaceChildren();
}

/** Show each pair so that the system with more wins comes first, those with a winner first. */
function showPairs(found, history) {
  const turned = found.pairs.map((pair, i) => ({ pair, band: history.pairs[i], turn: pair.losses > pair.wins, id: `pair-${i}` }));
  const order = turned.toSorted((a, b) => a.pair.p_value - b.pair.p_value);
  $("pairs").tBodies[0].replaceChildren(...order.map(({ pair, turn }) => pairRow(turn ? mirrored(pair) : pair)));
  for (const { pair, id } of turned) if (!$(id)) addPair(pair, id);
  for (const { pair, band, turn, id } of turned) drawPair(turn ? mirrored(pair) : pair, turnedBand(band, turn), history, id);
}

/** The range of an axis that has the band, without its wide beginning. */
function around(lists, low, high) {
  const from = lists.findIndex((x) => x >= lists.at(-1) / 10);
  return [Math.max(0, Math.min(0.45, ...low.slice(from)) - 0.03), Math.min(1, Math.max(0.55, ...high.slice(from)) + 0.03)];
}

const mirrored = (pair) => ({ ...pair, one: pair.other, other: pair.one, wins: pair.losses, losses: pair.wins, win_rate: 1 - pair.win_rate, low: 1 - pair.high, high: 1 - pair.low });
const turnedBand = (band, turn) => {
  const minus = (values) => values.map((value) => (value == null ? null : 1 - value));
  return turn ? { win_rate: minus(band.win_rate), low: minus(band.high), high: minus(band.low) } : band;
};

function pairRow(pair) {
  const row = element("tr"), head = element("th", pair.one), verdict = element("td");
  head.scope = "row";
  if (pair.better) verdict.append(element("span", "better", "pill"));
  else verdict.textContent = "undecided";
  const cells = [pair.other, short(pair.wins), short(pair.losses), short(pair.ties), percent(pair.win_rate), `${percent(pair.low)} – ${percent(pair.high)}`, pair.p_value < 0.0001 ? "< 0.0001" : pair.p_value.toPrecision(2)];
  row.append(head, ...cells.map((text) => element("td", text)), verdict);
  return row;
}

function addPair(pair, id) {
  const card = element("section", null, "card"), place = element("div", null, "chart");
  place.id = id;
  card.append(element("h2"), element("p", "Share of the lists with a winner, with a band that holds at all times at once.", "hint"), place);
  $("pair-charts").append(card);
}

function drawPair(pair, band, history, id) {
  const format = (y) => percent(y, 1), from = band.win_rate.findIndex((value) => value != null);
  const cut = (values) => (from < 0 ? [] : values.slice(from));
  const lists = cut(history.lists), colour = pair.better ? "--c3" : "--c1";
  $(id).parentElement.firstChild.textContent = `${pair.one} against ${pair.other}`;
  draw(id, lists, lists.length ? [
    { label: "upper", colour, values: cut(band.high), width: 0, silent: true, format },
    { label: "lower", colour, values: cut(band.low), width: 0, silent: true, format },
    { label: `won by ${pair.one}`, colour, values: cut(band.win_rate), width: 2, format },
    { label: "band from", colour: "--c8", values: cut(band.low), width: 0, format },
    { label: "to", colour: "--c8", values: cut(band.high), width: 0, format },
  ] : [], {
    empty: "No list has a winner yet.", bands: [[1, 2, colour, 0.16]], levels: [[0.5, "equally good", "--muted"]],
    yFormat: (y) => percent(y, 0), xFormat: (x) => (x >= 1000 ? compact.format(x) : whole.format(x)),
    xTell: (x) => `after ${whole.format(x)} lists · ${moment(history.time[history.lists.indexOf(x)])}`,
    range: () => around(lists, cut(band.low), cut(band.high)),
  });
}
