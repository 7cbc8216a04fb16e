// UBI events: clicks, and how far lists were seen
(() => {
  const { url, client, close } = document.currentScript.dataset;
  const LIST = "[data-query-id]", ITEM = `${LIST} [data-object-id]`, lists = {};
  let news;
  const send = (events) => navigator.sendBeacon(url, JSON.stringify(events));

  function note(item, action_name, key) {
    const root = item.closest(LIST), query_id = root.dataset.queryId, object_id = item.dataset.objectId;
    const ordinal = +item.dataset.position || [...root.querySelectorAll(ITEM)].indexOf(item) + 1;
    const events = lists[query_id] ??= {}, known = events[key];
    if (known && !(key == "seen" && known.event_attributes.position.ordinal < ordinal)) return;
    const event_attributes = { object: { object_id }, position: { ordinal } };
    return news = events[key] = { action_name, query_id, client_id: client, timestamp: new Date(), event_attributes };
  }

  function click({ target, button }) {
    const actor = target.closest("a,[data-action]"), item = actor?.closest(ITEM), name = actor?.dataset.action || "click";
    if (item && button < 2 && note(item, name, `${name} ${item.dataset.objectId}`)) send([news]);
  }

  // A beacon may be lost: send clicks again
  function leave({ type }) {
    const gone = type == "pagehide";
    if (gone && close != null) for (const id in lists) news = lists[id].close = { impression_id: id, close: true };
    if (news && (gone || document.hidden)) news = !send(Object.values(lists).flatMap(Object.values));
  }

  const view = new IntersectionObserver((all) => {
    for (const each of all) if (each.isIntersecting) note(each.target, "impression", "seen");
  }, { threshold: 0.5 });
  const watch = () => document.querySelectorAll(ITEM).forEach((item) => view.observe(item));
  const on = (act, ...types) => types.forEach((type) => addEventListener(type, act, true));
  on(click, "click", "auxclick");
  on(leave, "pagehide", "visibilitychange");
  new MutationObserver(watch).observe(document, { childList: true, subtree: true });
  watch();
})();
