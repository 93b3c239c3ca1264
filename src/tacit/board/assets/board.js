// The board: asks once a second for what is new and draws it. Whatever comes from a run is text, never markup.
"use strict";

const content = document.getElementById("content");
const SECOND = 1000;
const SHOWN = 100; // rows of the list at a time
const KEPT = 500; // lines of events
const POINTS = 1500; // of a figure
const STATES = ["running", "paused", "done", "budget reached", "stopped", "failed", "killed", "damaged"];
const TONES = { running: "live", paused: "fair", done: "good", "budget reached": "fair", stopped: "fair", failed: "bad", killed: "bad", damaged: "bad" };
const UNDER_WAY = ["running", "paused"];
const NOTHING = "–";

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function say(place, words) {
  if (place.textContent !== words) place.textContent = words;
}

function ago(seconds) {
  for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * length) return `${Math.floor(seconds / length).toLocaleString("en")} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

function age(began) {
  return began ? `${ago(Date.now() / SECOND - began)} ago` : NOTHING;
}

function when(seconds, withDay) {
  const date = new Date(seconds * SECOND);
  if (!seconds || Number.isNaN(date.getTime())) return "";
  return withDay ? date.toLocaleString() : date.toLocaleTimeString([], { hour12: false });
}

function badge(state) {
  return make("span", { class: `badge ${TONES[state] || "fair"}` }, state);
}

// --- asking

const TROUBLES = {
  403: "This board was ended or started again. Open the address that tacit board printed.",
  422: "This run is no longer in the folder. What was read before stays on this page.",
};
const trouble = make("div", { class: "notice fair trouble", role: "status", hidden: true });

async function ask(address) {
  const answer = await fetch(address, { cache: "no-store" });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

function follow(step) {
  let waiting = null;
  let busy = false;
  async function again() {
    clearTimeout(waiting);
    if (busy) return;
    busy = true;
    let pause = SECOND;
    try {
      pause = await step();
      trouble.hidden = true;
    } catch (error) {
      say(trouble, TROUBLES[error.message] || "No answer from tacit board. This page asks again every few seconds.");
      trouble.hidden = false;
      pause = 3 * SECOND;
    }
    busy = false;
    if (!document.hidden) waiting = setTimeout(again, pause);
  }
  document.addEventListener("visibilitychange", () => document.hidden || again());
  again();
}

// --- the list

function listView() {
  const runs = new Map(); // by id: what was told, and its row
  const chosen = new Set();
  let number = 0;
  let limit = SHOWN;
  let state = "";
  let visible = [];

  const search = make("input", { type: "search", placeholder: "Search runs", "aria-label": "Search runs", autocomplete: "off" });
  const states = make("div", { class: "states", role: "group", "aria-label": "Show runs that are" });
  const buttons = new Map(["", ...STATES].map((name) => {
    const button = make("button", { type: "button", "aria-pressed": name === state ? "true" : "false" });
    button.addEventListener("click", () => {
      state = name;
      for (const [other, each] of buttons) each.setAttribute("aria-pressed", other === name ? "true" : "false");
      limit = SHOWN;
      arrange();
    });
    states.append(button);
    return [name, button];
  }));
  const rows = make("tbody");
  const head = ["", "Run", "State", "Kind", "Protection", "ε", "Metric", "Progress", "Began"].map((name) =>
    name ? make("th", { scope: "col" }, name) : make("th", { scope: "col", "aria-label": "Compare" }));
  const table = make("table", { class: "runs" }, make("thead", {}, make("tr", {}, ...head)), rows);
  const box = make("div", { class: "scroll list", hidden: true }, table);
  const empty = make("div", { class: "notice plain empty", hidden: true });
  const reading = make("p", { class: "reading", role: "status", hidden: true });
  const more = make("button", { type: "button", class: "more", hidden: true });
  const compare = make("a", { class: "button" }, "Compare");
  const clear = make("button", { type: "button" }, "Clear");
  const count = make("span");
  const bar = make("div", { class: "compare", role: "region", "aria-label": "Compare runs", hidden: true }, count, compare, clear);

  search.addEventListener("input", () => { limit = SHOWN; arrange(); });
  more.addEventListener("click", () => { limit += SHOWN; arrange(); });
  clear.addEventListener("click", () => {
    for (const id of chosen) runs.get(id).row.box.checked = false;
    chosen.clear();
    choose();
  });
  content.append(trouble, make("div", { class: "tools" }, states, search), reading, box, empty, more, bar);

  function rowOf(id) {
    const tick = make("input", { type: "checkbox" });
    const link = make("a", { href: `run/${id}` });
    const note = make("span", { class: "note" });
    const cells = Object.fromEntries(["state", "kind", "protection", "epsilon", "metric", "progress", "began"].map((name) => [name, make("td", { "data-label": { epsilon: "ε" }[name] || name })]));
    const bar = make("progress", { max: 1 });
    const [words, unit, metric, measured, protection] = ["", "note", "", "note", "protection"].map((style) => make("span", { class: style || null }));
    cells.progress.append(words, unit, bar);
    cells.protection.append(protection);
    cells.metric.append(metric, measured);
    tick.addEventListener("change", () => { tick.checked ? chosen.add(id) : chosen.delete(id); choose(); });
    const all = [make("td", { class: "tick" }, make("label", {}, tick)), make("td", { class: "name" }, link, note), ...Object.values(cells)];
    return { line: make("tr", {}, ...all), box: tick, link, note, cells, bar, words, unit, metric, measured, protection };
  }

  function show(run, row) {
    say(row.link, run.folder);
    row.box.setAttribute("aria-label", `Compare ${run.folder}`);
    const notes = [run.party, run.reason].filter(Boolean).join(" · ");
    say(row.note, notes);
    row.note.title = notes;
    row.line.className = TONES[run.state] === "bad" ? "bad" : "";
    if (row.cells.state.textContent !== run.state) row.cells.state.replaceChildren(badge(run.state));
    say(row.cells.kind, run.kind.slice(0, 40) || NOTHING);
    say(row.protection, run.protection);
    row.protection.title = run.protection;
    say(row.cells.epsilon, run.epsilon);
    row.cells.epsilon.title = run.covers;
    say(row.metric, run.metric);
    say(row.measured, run.measured);
    say(row.words, run.progress);
    say(row.unit, run.progress === NOTHING ? "" : run.unit);
    row.bar.hidden = !UNDER_WAY.includes(run.state) || run.progress === NOTHING;
    row.bar.value = run.part;
    say(row.cells.began, age(run.began));
    row.cells.began.title = when(run.began, true);
  }

  function choose() {
    const units = new Set([...chosen].map((id) => runs.get(id)?.run.unit));
    const client = [...chosen].some((id) => runs.get(id)?.run.party.startsWith("client"));
    const fit = chosen.size > 1 && chosen.size <= 12 && units.size === 1 && !client;
    bar.hidden = chosen.size === 0;
    say(count, client ? "A client's folder is not compared: it has a report of its own" : chosen.size === 1 ? "1 run chosen: choose another" : chosen.size > 12 ? "At most 12 runs are compared"
      : units.size > 1 ? "Rounds and epochs cannot be compared" : `${chosen.size} runs chosen`);
    compare.hidden = !fit;
    if (fit) compare.setAttribute("href", `compare?${[...chosen].map((id) => `run=${id}`).join("&")}`);
  }

  function arrange() {
    const words = search.value.trim().toLowerCase();
    const all = [...runs.values()];
    const counts = {};
    for (const { run } of all) counts[run.state] = (counts[run.state] || 0) + 1;
    for (const [name, button] of buttons) {
      say(button, name ? `${name} ${counts[name] || 0}` : `all ${all.length.toLocaleString("en")}`);
      button.hidden = Boolean(name) && !counts[name] && name !== state;
    }
    const kept = all.filter(({ run }) => (!state || run.state === state)
      && (!words || [run.folder, run.name, run.party, run.kind, run.protection, run.state].some((each) => each.toLowerCase().includes(words))));
    kept.sort((a, b) => b.run.began - a.run.began || (a.run.folder < b.run.folder ? 1 : -1));
    visible = kept.slice(0, limit);
    const lines = visible.map((each) => each.row.line);
    if (lines.length !== rows.children.length || lines.some((line, place) => rows.children[place] !== line)) rows.replaceChildren(...lines);
    box.hidden = !kept.length;
    more.hidden = kept.length <= limit;
    say(more, `Show ${Math.min(SHOWN, kept.length - limit)} more of ${kept.length.toLocaleString("en")}`);
    empty.hidden = kept.length > 0;
    say(empty, all.length ? "No run fits." : "No runs here yet. tacit run FILE makes one, and it appears on this page as it begins.");
  }

  follow(async () => {
    const found = await ask(`runs.json?after=${number}`);
    if (found.number < number) {
      runs.clear();
      chosen.clear();
    }
    number = found.number;
    for (const id of found.gone) { runs.delete(id); chosen.delete(id); }
    for (const run of found.runs) {
      const known = runs.get(run.id) || { row: rowOf(run.id) };
      known.run = run;
      runs.set(run.id, known);
      show(run, known.row);
    }
    reading.hidden = !found.unread;
    say(reading, `Reading runs: ${found.unread.toLocaleString("en")} left.`);
    if (found.runs.length || found.gone.length || number === 0 || !runs.size) { arrange(); choose(); }
    for (const { run, row } of visible) say(row.cells.began, age(run.began));
    return found.more ? 0 : SECOND;
  });
}

// --- one run

function runView(id) {
  const figures = new Map(); // name: points by place, and where they are drawn
  let next = null;
  let unit = "";
  const card = (label) => {
    const value = make("p", { class: "value" });
    const note = make("p", { class: "note" });
    const whole = make("div", { class: "card plain" }, make("p", { class: "label" }, label), value, note);
    return { whole, value, note };
  };
  const cards = { state: card("State"), progress: card("Progress"), epsilon: card("ε"), metric: card("Metric"), began: card("Began") };
  const bar = make("progress", { max: 1 });
  cards.progress.whole.append(bar);
  const report = make("a", { class: "button", href: `${id}/report` }, "Report");
  const audit = make("a", { class: "button", href: `${id}/audit`, hidden: true }, "Audit");
  const unaudited = make("span", { class: "note" }, "Not audited: tacit audit RUN makes its page.");
  const notice = make("div", { class: "notice", role: "status", hidden: true });
  const drawings = make("div", { class: "figures" });
  const lines = make("ol", { class: "events", tabindex: "0", "aria-label": "Events" });
  const none = make("p", { class: "note" }, "No events yet.");
  const earlier = make("p", { class: "note", hidden: true }, "Earlier events are in run.log and in the report.");
  content.append(trouble, notice, make("div", { class: "cards" }, ...Object.values(cards).map((each) => each.whole)),
    make("div", { class: "actions" }, report, audit, unaudited),
    make("section", { "aria-labelledby": "figures" }, make("h2", { id: "figures" }, "Figures"), drawings),
    make("section", { "aria-labelledby": "events" }, make("h2", { id: "events" }, "Events"), none, lines, earlier));

  function put(card, value, note = "") {
    say(card.value, value);
    say(card.note, note);
    card.value.className = value.length <= 7 ? "value" : "value long";
  }

  function show(run) {
    say(document.getElementById("kind"), [run.kind, run.party].filter(Boolean).join(" · ") || "Run");
    cards.state.whole.className = `card ${TONES[run.state]}`;
    put(cards.state, run.state, run.protection === NOTHING ? "" : run.protection);
    const started = run.progress !== NOTHING;
    put(cards.progress, run.progress, started ? run.unit : "");
    bar.hidden = !started;
    bar.value = run.part;
    put(cards.epsilon, run.epsilon, run.covers || (started ? "no ε is promised" : ""));
    put(cards.metric, run.metric, run.measured);
    put(cards.began, age(run.began), when(run.began, true));
    const silent = { killed: "Its process ended without a word: the run can be resumed.",
      paused: "No round begins until the coordinator's operator ends the pause (tacit unpause RUN)." }[run.state] || "";
    say(notice, run.state === "stopped" ? `Stopped: ${run.reason || "no reason is known"}. The run can be resumed.` : run.reason || silent);
    notice.className = `notice ${TONES[run.state] === "bad" ? "bad" : "fair"}`;
    notice.hidden = !notice.textContent;
  }

  function add(row) {
    if (row.back !== undefined) {
      for (const { points } of figures.values()) for (const x of [...points.keys()]) if (x > row.back) points.delete(x);
    }
    for (const [name, y] of Object.entries(row.points || {})) {
      if (!figures.has(name)) {
        if (figures.size >= 12) continue;
        const latest = make("span", { class: "latest" });
        const figure = make("figure", {}, make("div", { class: "figure-head" }, make("h3", {}, name), latest));
        figures.set(name, { points: new Map(), figure, latest, svg: null });
        drawings.append(figure);
      }
      const points = figures.get(name).points;
      points.set(row.x, y);
      if (points.size > POINTS) [...points.keys()].forEach((x, place) => place % 2 && place < POINTS - 100 && points.delete(x));
    }
    if (row.words) {
      lines.prepend(make("li", { class: row.tone || null }, make("time", { title: when(row.time, true) }, when(row.time, false)), make("span", {}, row.words)));
      if (lines.children.length > KEPT) { lines.lastChild.remove(); earlier.hidden = false; }
    }
  }

  follow(async () => {
    const found = await ask(`${id}/events.json${next === null ? "" : `?from=${next}`}`);
    if (found.anew) {
      figures.clear();
      drawings.replaceChildren();
      lines.replaceChildren();
      next = 0;
      return 0;
    }
    if (next === null && found.from) earlier.hidden = false;
    next = found.next;
    found.rows.forEach(add);
    unit = found.run.unit;
    if (found.rows.length) for (const [name, each] of figures) redraw(name, each);
    show(found.run);
    audit.hidden = !found.audit;
    unaudited.hidden = found.audit;
    none.hidden = lines.children.length > 0;
    drawings.parentElement.hidden = figures.size === 0;
    return found.more ? 0 : UNDER_WAY.includes(found.run.state) ? SECOND : 3 * SECOND;
  });

  function redraw(name, each) {
    const points = [...each.points].sort((a, b) => a[0] - b[0]);
    const svg = chart(name, points, unit);
    say(each.latest, points.length ? brief(points[points.length - 1][1]) : "");
    each.svg ? each.svg.replaceWith(svg) : each.figure.append(svg);
    each.svg = svg;
  }
}

// --- a figure

function brief(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

function steps(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.floor(low / step + 1e-9) * step; found.length < 9; at += step) {
    found.push(at);
    if (at >= high - step * 1e-9) break;
  }
  return found;
}

function chart(name, points, unit) {
  const [width, height, left, right, top, bottom] = [440, 210, 52, 14, 12, 28];
  const ys = points.map(([, y]) => y);
  let [low, high] = [Math.min(...ys), Math.max(...ys)];
  if (low > 0 && low < high / 2) low = 0;
  if (low === high) [low, high] = low ? [low - Math.abs(low) / 2, high + Math.abs(high) / 2] : [-1, 1];
  const lines = points.length ? steps(low, high) : [];
  if (lines.length) [low, high] = [lines[0], lines[lines.length - 1]];
  const first = points.length ? points[0][0] : 0;
  const last = points.length ? points[points.length - 1][0] : 1;
  const x = (at) => left + (last > first ? (at - first) / (last - first) : 0.5) * (width - left - right);
  const y = (at) => top + (1 - (at - low) / (high - low)) * (height - top - bottom);
  const text = (words, attributes) => drawn("text", { class: "tick", ...attributes }, words);
  const latest = points.length ? `${brief(ys[ys.length - 1])} at ${brief(last)}` : "nothing yet";
  const svg = drawn("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name}: ${latest}` });
  for (const at of lines) {
    svg.append(drawn("path", { class: "grid", d: `M${left} ${y(at)}H${width - right}` }),
      text(brief(at), { x: left - 8, y: y(at) + 4, "text-anchor": "end" }));
  }
  svg.append(drawn("path", { class: "axis", d: `M${left} ${height - bottom}H${width - right}` }));
  for (const at of last > first ? [first, last] : points.length ? [first] : []) {
    svg.append(text(brief(at), { x: x(at), y: height - 9, "text-anchor": last > first ? (at === last ? "end" : "start") : "middle" }));
  }
  if (last > first) svg.append(drawn("text", { class: "axis-title", x: (left + width - right) / 2, y: height - 9, "text-anchor": "middle" }, unit));
  const colour = name.startsWith("ε") ? "violet" : /loss/.test(name) ? "red" : "blue";
  const path = points.map(([px, py], place) => `${place ? "L" : "M"}${x(px).toFixed(2)} ${y(py).toFixed(2)}`).join("");
  if (points.length > 1) svg.append(drawn("path", { class: `line ${colour}`, d: path }));
  if (points.length) svg.append(drawn("circle", { class: `dot ${colour}`, cx: x(last), cy: y(ys[ys.length - 1]), r: 3.5 }));
  return svg;
}

if (content.dataset.view === "run") runView(content.dataset.run);
else listView();
