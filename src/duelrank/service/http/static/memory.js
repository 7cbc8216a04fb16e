// What the users of each query chose: the queries with the largest effect, and the documents of one of them.
"use strict";

const MOST_QUERIES = 20, LEAST_PAUSE = 3000; // milliseconds between two readings; more where reading takes long

let memory = forgotten(); // what is known of it, and which query is chosen

function forgotten() {
  return { found: null, chosen: "", byHand: false, stale: false, at: 0, took: 0 };
}

/** Begin again, for another ranker. */
function forgetMemory() {
  memory = forgotten();
  $("memory-query").value = "";
}

const readMemory = () => info?.remembers && asAdmin("no-memory", async () => {
  const asked = generation, began = Date.now(), wanted = memory.byHand ? memory.chosen : "";
  memory.stale = false;
  memory.at = began;
  const [all, one] = await Promise.all([get(of(`/memory?limit=${MOST_QUERIES}`)), wanted ? rememberedBy("query_key", wanted) : null]);
  if (asked !== generation) return;
  memory.took = Date.now() - began;
  memory.found = all;
  if (wanted === (memory.byHand ? memory.chosen : "")) showMemory(one); // else another one was chosen meanwhile
});

/** Read again when there is a new version, at most for a twentieth of the time. */
function followMemory(news) {
  memory.stale ||= news;
  if (memory.stale && !document.hidden && Date.now() - memory.at > Math.max(LEAST_PAUSE, 20 * memory.took)) readMemory();
}

const rememberedBy = async (how, query) => (await get(of(`/memory?${new URLSearchParams({ [how]: query })}`))).remembered[0];

/** Look up what was typed: the text of a query, or else its key. */
async function lookUp(event) {
  event.preventDefault();
  const typed = $("memory-query").value.trim(), asked = generation;
  if (!typed) {
    memory.byHand = false;
    return readMemory();
  }
  await asAdmin("no-memory", async () => {
    const one = (await rememberedBy("query", typed)) || (await rememberedBy("query_key", typed));
    if (asked !== generation) return;
    [memory.chosen, memory.byHand] = [one ? one.query : typed, true];
    showMemory(one);
  });
}

/** Show the queries, and the chosen one: the one that was asked for, else the first. */
function showMemory(one) {
  const { found } = memory, queries = found ? found.remembered : [];
  if (!memory.byHand) one = queries.find((each) => each.query === memory.chosen) || queries[0];
  if (!memory.byHand) memory.chosen = one ? one.query : "";
  const counted = (n, word, more) => `${whole.format(n)} ${n === 1 ? word : more}`;
  const size = found?.queries ? ` It remembers ${counted(found.queries, "query", "queries")} with ${counted(found.documents, "document", "documents")}.` : "";
  setText("hint-memory", `A document that the users of a query clicked more often than usual rises for that query; one that they passed over falls.${size}`);
  $("no-memory").hidden = queries.length > 0 || Boolean(one);
  setText("no-memory", memory.byHand ? `Nothing is remembered of “${memory.chosen}”.` : "Nothing is remembered yet: rank with the text of the query, and send clicks.");
  $("memory-form").hidden = !queries.length && !memory.byHand;
  $("remembered").hidden = !queries.length && !one;
  showLargest(queries);
  showChosen(one);
}

function showLargest(queries) {
  const focused = document.activeElement?.closest("#largest button")?.dataset.query;
  const most = Math.max(1e-9, ...queries.map((each) => each.effect));
  $("largest").replaceChildren(...queries.map((each) => {
    const item = element("li"), button = element("button"), bar = element("i");
    bar.style.width = `${(100 * each.effect) / most}%`;
    button.type = "button";
    button.dataset.query = each.query;
    button.setAttribute("aria-pressed", String(each.query === memory.chosen));
    button.title = `${each.query}: ${whole.format(each.lists)} lists; adds at most ${decimal(each.effect, 2)} to a score, or takes it away`;
    button.append(element("span", each.query), element("b", decimal(each.effect, 2)), bar);
    button.onclick = () => choose(each.query);
    item.append(button);
    return item;
  }));
  if (focused !== undefined) [...$("largest").querySelectorAll("button")].find((each) => each.dataset.query === focused)?.focus();
}

/** Choose a query of the list; what was looked up by hand is left. */
function choose(query) {
  [memory.chosen, memory.byHand] = [query, false];
  $("memory-query").value = "";
  showMemory();
}

function showChosen(one) {
  $("chosen").classList.toggle("nothing", !one);
  setText("chosen-query", one ? `${one.query} · ${whole.format(one.lists)} ${one.lists === 1 ? "list" : "lists"}` : `Nothing is remembered of “${memory.chosen}”.`);
  if (!readOnly) $("forget-query").hidden = !one;
  $("choices").hidden = !one;
  const documents = one ? one.documents : [], most = Math.max(1e-9, ...documents.map((each) => Math.abs(each.boost)));
  const focused = document.activeElement?.closest("#choices button")?.dataset.document;
  $("choices").tBodies[0].replaceChildren(...documents.map((each) => choiceRow(each, most)));
  if (focused !== undefined) [...$("choices").querySelectorAll("button")].find((each) => each.dataset.document === focused)?.focus();
}

/** What a number adds, with its sign. */
const signed = (x, digits = 2) => `${x < 0 ? "−" : "+"}${decimal(Math.abs(x), digits)}`;
const amount = (x) => (Math.abs(x - Math.round(x)) < (x < 1 ? 0.005 : 0.05) ? whole.format(Math.round(x)) : decimal(x, x < 1 ? 2 : 1));

function choiceRow(each, most) {
  const row = element("tr"), head = element("th", each.id), adds = element("td"), track = element("span", null, "track"), bar = element("i", null, each.boost < 0 ? "minus" : "");
  const share = (50 * Math.abs(each.boost)) / most;
  head.scope = "row";
  bar.style.width = `${share}%`;
  bar.style.left = `${each.boost < 0 ? 50 - share : 50}%`;
  track.setAttribute("aria-hidden", "true");
  track.append(bar);
  adds.append(track, element("b", signed(each.boost)));
  const cell = (label, text) => {
    const made = element("td", text);
    made.dataset.label = label;
    return made;
  };
  row.append(head, cell("clicks", amount(each.clicks)), cell("views", amount(each.views)), adds);
  if (readOnly) return row;
  const last = element("td"), button = element("button", "Forget …");
  button.type = "button";
  button.dataset.document = each.id;
  button.setAttribute("aria-label", `Forget ${each.id} …`);
  button.onclick = () => ask("forget-document", each.id);
  last.append(button);
  row.append(last);
  return row;
}

/** Say in a list what the memory of its query adds to a score. */
function memoryTag(boost) {
  const tag = element("span", `memory ${signed(boost)}`, `tag memory ${boost < 0 ? "minus" : ""}`);
  tag.title = boost < 0 ? "The users of this query passed over it; the score includes that." : "The users of this query chose it, or it was raised once to be tried; the score includes that.";
  return tag;
}
