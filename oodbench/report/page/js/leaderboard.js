"use strict";
// One board at a time: results of other presets, protocols, versions or machines are other boards and never in its ranking.

const ALL = "all"; // settings side by side
const PLAIN_ROWS = 240; // more lines than these are made only where they are looked at
const ROW_HEIGHT = 29;

function shownMetrics(state, board) {
  const asked = (state.metrics || "").split(".").filter((name) => board.metrics.includes(name));
  if (asked.length) return board.metrics.filter((name) => asked.includes(name));
  const usual = index.usual.filter((name) => board.metrics.includes(name));
  if (!usual.length) return board.metrics;
  const first = ["fpr95", "auroc"].filter((name) => usual.includes(name));
  return innerWidth <= NARROW ? [...first, ...usual.filter((name) => !first.includes(name))] : usual;
}

function rankedBy(board) {
  // The metric that orders methods where a reader has chosen none.
  return ["auroc", "covariate_acc", ...board.metrics].find((name) => board.metrics.includes(name) && board.numbers[name][0].rank);
}

function orderOf(state, board) {
  // "tables" is the order of the tables, in groups; otherwise a metric or the name, and a minus for descending.
  if (state.sort) return state.sort;
  const name = rankedBy(board);
  return name ? `${index.metrics[name].higher ? "-" : ""}${name}` : "tables";
}

const NARROW = 760; // pixels: where FPR and AUROC come first

function columnOf(state, board) {
  const found = board.columns.findIndex((each) => each.title === state.setting);
  return found < 0 ? 0 : found;
}

function fits(row, state) {
  if (state.group && row.group !== state.group) return false;
  const words = (state.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${row.name} ${row.method} ${row.given || ""} ${row.standing || ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function boardFields(state, board, options = {}) {
  const groups = new Map();
  for (const each of index.boards) {
    const kind = each.collection ? `${each.suite} (${each.collection})` : each.suite;
    groups.set(kind, [...(groups.get(kind) || []), [each.id, each.title]]);
  }
  const boards = [...groups].map(([group, some]) => (some.length > 1 ? { group, options: some } : some[0]));
  const settings = board.columns.map((each) => [each.title, each.over ? `${each.title} of ${each.over.length}` : each.title]);
  if (options.all && board.columns.length > 1) settings.push([ALL, "All settings"]);
  return [
    select("Suite and preset", boards, currentBoard(state).id, (id) => go({ board: id, setting: "", group: "", a: "", b: "", against: "" })),
    select("Setting", settings, state.setting === ALL && options.all ? ALL : board.columns[columnOf(state, board)].title,
      (title) => go({ setting: title })),
  ];
}

function rowFields(state, board) {
  const groups = [...new Set(board.rows.map((row) => row.group))].filter(Boolean);
  const fields = [];
  if (groups.length > 1) {
    fields.push(select("Group", [["", "All groups"], ...groups.map((name) => [name, name])], state.group || "", (group) => go({ group })));
  }
  fields.push(h("label", { class: "field" }, h("span", null, "Search"), h("input", {
    type: "search", value: state.q || "", placeholder: "method", id: "search", oninput: (event) => go({ q: event.target.value }, true),
  })));
  return fields;
}

function pairIndex(pairs, metric, column) {
  // For a row, its difference to another: [place in the lists, 1 or -1]
  const lists = pairs.numbers[metric]?.[column];
  if (!lists) return () => null;
  if (!lists.places) {
    lists.places = new Map();
    for (let i = 0; i < lists.first.length; i++) lists.places.set(lists.first[i] * 1e5 + lists.second[i], i);
  }
  return (one, other) => {
    const there = lists.places.get(one * 1e5 + other), back = lists.places.get(other * 1e5 + one);
    if (there !== undefined) return differenceAt(lists, there, 1, pairs.kinds);
    return back !== undefined ? differenceAt(lists, back, -1, pairs.kinds) : null;
  };
}

function differenceAt(lists, i, sign, kinds) {
  const p = sign > 0 ? lists.p[i] : lists.q[i];
  return {
    mean: sign * lists.mean[i], low: sign > 0 ? lists.low[i] : -lists.high[i], high: sign > 0 ? lists.high[i] : -lists.low[i],
    p, holds: (lists.holds[i] & (sign > 0 ? 1 : 2)) > 0, over: kinds[lists.kind[i]], seeds: lists.seeds[i],
  };
}

const pText = (p) => (p === 0 ? "< .001" : p >= 1000 ? "1.000" : "." + String(p).padStart(3, "0"));

async function leaderboard(state) {
  const listed = currentBoard(state), board = await chunk(`board-${listed.number}`);
  const wide = state.setting === ALL && board.columns.length > 1;
  const columns = wide ? board.columns.map((_, i) => i) : [columnOf(state, board)];
  const metrics = shownMetrics(state, board), each = state.seeds === "each";
  const against = board.rows.findIndex((row) => row.method === state.against);
  const pairs = against >= 0 ? await chunk(`pairs-${listed.number}`) : null;
  const places = columns.flatMap((column) => metrics.map((metric) => ({ column, metric, numbers: board.numbers[metric][column], key: `${metric}@${column}` })));
  if (pairs) for (const place of places) place.to = pairIndex(pairs, place.metric, place.column);
  const order = orderOf(state, board), lead = wide || each ? null : leadOf(order, board, places, columns[0]);
  const lines = sorted(linesOf(board, order, state, columns, each), order, places);
  const picked = [state.a, state.b].filter(Boolean);
  const seen = new Map(); // notes and their letters, in reading order

  const metricFields = h("details", { class: "menu" }, h("summary", null, "Columns"), h("div", { class: "choices" },
    board.metrics.map((name) => toggle(`${index.metrics[name].title}`, metrics.includes(name), (on) => {
      const next = board.metrics.filter((other) => (other === name ? on : metrics.includes(other)));
      if (next.length) go({ metrics: next.join(".") });
    }))));
  const methods = board.rows.map((row) => [row.method, row.name]);
  const filters = [rowFields(state, board),
    select("Marks", [["", "Best, as in tables"], { group: "Differences from", options: methods }], against >= 0 ? state.against : "", (method) => go({ against: method })),
    select("Order", [["", `By ${index.metrics[rankedBy(board)]?.title || "rows"}`], ["tables", "As in tables"], ["name", "By name"]], ["tables", "name"].includes(state.sort) ? state.sort : "", (sort) => go({ sort })),
    select("Seeds", [["", "Mean"], ["each", "Each seed"]], each ? "each" : "", (seeds) => go({ seeds })),
    metricFields,
    toggle("Explain columns", state.explain === "1", (on) => go({ explain: on ? "1" : "" }))];
  const toolbar = [h("div", { class: "toolbar" }, boardFields(state, board, { all: true }), innerWidth <= NARROW ? null : filters),
    innerWidth <= NARROW ? h("details", null, h("summary", null, "Filters"), h("div", { class: "toolbar" }, filters)) : null];

  const table = boardTable({ board, listed, state, order, lead, lines, places, columns, metrics, wide, each, against, picked, seen });
  const chosen = picked.length === 2
    ? h("a", { class: "button", href: shared(state, "compare", { a: state.a, b: state.b }) }, "Compare the two")
    : h("span", { class: "quiet" }, picked.length ? "Select one more row to compare." : "Select two rows to compare them.");
  return [
    h("h1", null, listed.title, wide ? null : h("small", null, board.columns[columns[0]].title)),
    h("p", { class: "about" }, listed.about),
    facts(listed), toolbar,
    h("div", { class: "above" }, h("p", { class: "quiet", role: "status" }, statusOf(lines, board, order, each)), chosen),
    table,
    legend(board, places, against, each),
    notesBelow(seen, board),
    sentencesBelow(board),
  ];
}

function statusOf(lines, board, order, each) {
  const rows = lines.filter((line) => line.row !== undefined).length;
  const word = each ? "run" : "method";
  const key = order.replace(/^-/, "").split("@")[0];
  const by = order === "tables" ? ", in the order of the tables" : key === "name" ? ", by name" : `, by ${index.metrics[key].title}`;
  return `${many(rows, word)}${rows < board.rows.length && !each ? ` of ${board.rows.length}` : ""}${by}`;
}

function linesOf(board, order, state, columns, each) {
  // What stands below each other: a method, a method under a seed, or the name of a group.
  const lines = [];
  board.rows.forEach((row, i) => {
    if (!fits(row, state)) return;
    if (!each) { lines.push({ row: i }); return; }
    const seeds = new Set(columns.flatMap((column) => board.seeds[column]?.[i] || Object.keys(board.numbers[board.metrics[0]][column].values[i]).map(Number)));
    for (const seed of [...seeds].sort((a, b) => a - b)) lines.push({ row: i, seed });
  });
  if (order !== "tables") return lines;
  const grouped = [];
  let last = null;
  for (const line of lines) {
    const { group } = board.rows[line.row];
    if (group && group !== last) grouped.push({ group });
    last = group;
    grouped.push(line);
  }
  return grouped;
}

const valueAt = (place, line) =>
  line.seed === undefined ? place.numbers.mean[line.row] : place.numbers.values[line.row][line.seed] ?? null;

function leadOf(order, board, places, column) {
  // The metric of the rank and of the intervals drawn beside the table: the one that the rows are sorted by.
  const key = order.replace(/^-/, "").split("@")[0];
  const name = board.metrics.includes(key) && board.numbers[key][column].rank ? key : rankedBy(board);
  return name ? { metric: name, numbers: board.numbers[name][column] } : null;
}

function sorted(lines, order, places) {
  if (order === "tables") return lines;
  const [key, down] = order.startsWith("-") ? [order.slice(1), true] : [order, false];
  if (key === "name") return down ? [...lines].reverse() : lines;
  const place = places.find((each) => each.key === key) || places.find((each) => each.metric === key.split("@")[0]);
  if (!place) return lines;
  const keyed = lines.map((line, i) => [valueAt(place, line), i, line]);
  keyed.sort(([a, i], [b, j]) => (a === null || b === null ? (a === null) - (b === null) || i - j : (down ? b - a : a - b) || i - j));
  return keyed.map(([, , line]) => line);
}

function boardTable(shown) {
  const { board, order, lead, lines, places, columns, metrics, wide, each } = shown;
  const { state } = shown, [sortKey, down] = order.startsWith("-") ? [order.slice(1), true] : [order, false];
  shown.axis = lead ? forestAxis(lead, lines) : null;
  shown.facts = wide || each ? [] : FACTS.filter(([, , has]) => board.rows.some(has));
  const sortButton = (key, title, higher, colspan) => {
    const current = sortKey === key || (key !== "name" && !wide && sortKey?.split("@")[0] === key.split("@")[0]);
    const next = !current ? (higher ? "-" : "") + key : (higher ? down : !down) ? (down ? "" : "-") + key : "";
    return h("th", { scope: "col", class: key === "name" ? "name" : "number", "aria-sort": current ? (down ? "descending" : "ascending") : "none" },
      h("button", { type: "button", onclick: () => go({ sort: next }) }, title, h("span", { class: "arrow", "aria-hidden": "true" }, current ? (down ? " ▼" : " ▲") : "")));
  };
  const width = 2 + (each ? 1 : 0) + places.length + (lead ? 2 : 0) + shown.facts.length;
  const heads = [];
  if (wide) {
    heads.push(h("tr", null, h("td", { colspan: width - places.length }),
      columns.map((column) => h("th", { colspan: metrics.length, scope: "colgroup", class: "setting" }, board.columns[column].title))));
  }
  heads.push(h("tr", null, h("th", { scope: "col", class: "pick" }, quiet("Select to compare")),
    lead ? h("th", { scope: "col", class: "number rank", title: `By ${index.metrics[lead.metric].title}; in brackets the ranks that a method may have (95 %)` }, "Rank") : null,
    sortButton("name", "Method", false),
    each ? h("th", { scope: "col", class: "number" }, "Seed") : null,
    places.map((place) => {
      const metric = index.metrics[place.metric];
      return sortButton(place.key, `${metric.title} ${metric.arrow}`, metric.higher);
    }), lead ? h("th", { scope: "col", class: "forest" }, forestHead(lead, shown.axis)) : null,
    shown.facts.map(([title]) => h("th", { scope: "col", class: `fact ${title.split(" ")[0].toLowerCase()}` }, title))));
  if (state.explain === "1") {
    heads.push(h("tr", { class: "explained" }, h("td"), lead ? h("td", { class: "narrow rank" }) : null, h("td", { class: "name" }, "Numbers are in percent. A method's name links to the details of its run."), each ? h("td", { class: "narrow" }) : null,
      places.map((place) => h("td", null, index.metrics[place.metric].summary, index.metrics[place.metric].judged ? "" : "; no interval here")),
      lead ? h("td", { class: "narrow forest" }) : null, shown.facts.map(([title]) => h("td", { class: `narrow fact ${title.split(" ")[0].toLowerCase()}` }))));
  }
  const body = h("tbody"), isLong = lines.length > PLAIN_ROWS;
  const table = h("table", { class: "board", "aria-rowcount": isLong ? lines.length + heads.length : null },
    h("caption", { class: "unseen" }, `${currentBoard(state).title}, in percent`), h("thead", null, heads), body);
  const scroll = h("div", { class: isLong ? "scroll long" : "scroll", tabindex: "0", role: "region", "aria-label": "Leaderboard" }, table);
  if (!lines.length) body.append(h("tr", null, h("td", { colspan: width, class: "quiet" }, "No method matches.")));
  const make = (i) => tableLine(shown, lines[i], isLong ? i + heads.length + 1 : null, width);
  if (isLong) virtual(scroll, body, lines.length, width, make);
  else body.append(...lines.map((_, i) => make(i)));
  scroll.addEventListener("keydown", (event) => moveAmongRows(event, scroll));
  return scroll;
}

function virtual(scroll, body, count, width, make) {
  const gap = () => h("tr", { class: "gap", "aria-hidden": "true" }, h("td", { colspan: width }));
  const above = gap(), below = gap();
  let from = -1, to = -1;
  const draw = (all) => {
    const first = all ? 0 : Math.max(0, Math.floor(scroll.scrollTop / ROW_HEIGHT) - 12);
    const last = all ? count : Math.min(count, first + Math.ceil((scroll.clientHeight || 700) / ROW_HEIGHT) + 24);
    if (first === from && last === to) return;
    [from, to] = [first, last];
    const focused = document.activeElement?.getAttribute?.("href");
    above.firstChild.style.height = `${first * ROW_HEIGHT}px`;
    below.firstChild.style.height = `${(count - last) * ROW_HEIGHT}px`;
    const rows = [];
    for (let i = first; i < last; i++) rows.push(make(i));
    body.replaceChildren(above, ...rows, below);
    if (focused) [...body.querySelectorAll("th a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
  };
  scroll.addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
  printing = (on) => { from = -1; draw(on && count <= 3000); };
  draw(false);
}

function moveAmongRows(event, scroll) {
  if (!["ArrowDown", "ArrowUp"].includes(event.key) || event.target.tagName === "SELECT") return;
  const links = [...scroll.querySelectorAll("tbody th a")], at = links.indexOf(event.target.closest("tr")?.querySelector("th a"));
  const next = links[at + (event.key === "ArrowDown" ? 1 : -1)] || (at < 0 ? links[0] : null);
  if (!next) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function tableLine(shown, line, rowIndex, width) {
  const { board, listed, lead, places, columns, each, against, picked, seen } = shown;
  if (line.group) return h("tr", { class: "group", "aria-rowindex": rowIndex }, h("th", { colspan: width, scope: "rowgroup" }, line.group));
  const row = board.rows[line.row], isPicked = picked.includes(row.method);
  const pick = h("input", { type: "checkbox", checked: isPicked, "aria-label": `Select ${row.name} to compare`, onchange: () => {
    const next = isPicked ? picked.filter((method) => method !== row.method) : [...picked, row.method].slice(-2);
    go({ a: next[0] || "", b: next[1] || "" }, true);
  } });
  const setting = columns.map((column) => board.columns[column]).find((column) => !column.over);
  const seed = line.seed ?? (setting && board.seeds[board.columns.indexOf(setting)][line.row][0]);
  const target = setting && seed !== undefined ? addressOf({ view: "cell", board: listed.id, setting: setting.title, method: row.method, seed }) : null;
  return h("tr", { class: [line.row === against ? "baseline" : "", isPicked ? "picked" : ""].join(" ").trim() || null, "aria-rowindex": rowIndex },
    h("td", { class: "pick" }, pick),
    lead ? rankCell(lead.numbers.rank[line.row]) : null,
    h("th", { scope: "row", class: "name" }, target ? h("a", { href: target }, row.name) : row.name, markOf(row.notes, board, seen),
      row.standing ? h("span", { class: `tag ${row.standing}` }, row.standing) : null, line.row === against ? h("span", { class: "tag" }, "baseline") : null),
    each ? h("td", { class: "number" }, String(line.seed)) : null,
    places.map((place) => numberCell(place, line, shown, seen)),
    lead ? h("td", { class: "forest" }, forestLine(lead.numbers, line.row, shown.axis, row.name)) : null,
    shown.facts.map(([title, make]) => h("td", { class: `fact ${title.split(" ")[0].toLowerCase()}` }, make(row))));
}

function rankCell(rank) {
  if (!rank) return h("td", { class: "number rank" }, "–");
  const [value, low, high] = rank;
  return h("td", { class: "number rank", title: `ranks ${low} to ${high} with 95 % confidence` }, String(value),
    h("span", { class: "margin" }, low === high ? `[${low}]` : `[${low}–${high}]`));
}

const FACTS = [ // title, what stands in a row, and which rows have it
  ["Paper", (row) => row.paper && h("a", { href: `${SCHOLAR}${encodeURIComponent(row.paper[1])}`, rel: "noreferrer", title: `${row.paper[0]}, ${row.paper[1]}` }, row.paper[2]), (row) => row.paper],
  ["Data used", (row) => row.uses.join(", "), (row) => row.uses.length],
  ["Network", (row) => row.given, (row) => row.given],
  ["Run", (row) => row.date, (row) => row.date],
];
const SCHOLAR = "https://scholar.google.com/scholar?q="; // followed by a reader's click alone

const FOREST = { get width() { return innerWidth >= 1500 ? 300 : innerWidth >= 1300 ? 260 : 190; }, height: 26, pad: 8 };

function forestAxis(lead, lines) {
  // From the intervals; a mean that lies far from all others is marked at the edge and does not rule the axis.
  const { mean, low, high, paper } = lead.numbers, rows = lines.map((line) => line.row).filter((row) => row !== undefined && mean[row] !== null);
  const means = rows.map((row) => mean[row]).sort((a, b) => a - b);
  const [from, to] = withoutOutliers(means);
  const ends = rows.filter((row) => mean[row] >= from && mean[row] <= to)
    .flatMap((row) => [low[row] ?? mean[row], high[row] ?? mean[row], paper[row] ?? mean[row]]);
  const reach = Math.max(to - from, 100);
  const least = Math.max(0, Math.min(...ends, from), from - reach), most = Math.min(10000, Math.max(...ends, to), to + reach);
  const span = Math.max(most - least, 1);
  return { least, most, x: (value) => FOREST.pad + (Math.max(least, Math.min(most, value)) - least) / span * (FOREST.width - 2 * FOREST.pad) };
}

function withoutOutliers(values) {
  // The ends of sorted values without those that lie more than five times the middle half away from it.
  if (values.length < 5) return [values[0] ?? 0, values[values.length - 1] ?? 1];
  const at = (share) => values[Math.round(share * (values.length - 1))];
  const half = Math.max(at(0.75) - at(0.25), 50);
  const inside = values.filter((value) => value >= at(0.25) - 5 * half && value <= at(0.75) + 5 * half);
  return [inside[0], inside[inside.length - 1]];
}

function forestHead(lead, axis) {
  const title = index.metrics[lead.metric].title, picture = svg("svg", { width: FOREST.width, height: FOREST.height, "aria-hidden": "true" });
  for (const tick of ticks(axis.least, axis.most, 4)) {
    const x = axis.x(tick), near = x < 24 ? "start" : x > FOREST.width - 24 ? "end" : "middle";
    picture.append(svg("text", { x, y: 22, class: "tick", "text-anchor": near }, number(tick / 100)));
  }
  picture.append(svg("text", { x: FOREST.pad, y: 10, class: "tick" }, `${title} with 95 % intervals${lead.numbers.paper.some((value) => value !== null) ? "; ◆ paper" : ""}`));
  return [quiet(`${title}, drawn`), picture];
}

function forestLine({ mean, low, high, paper, best, near }, row, axis, name) {
  if (mean[row] === null) return null;
  const middle = FOREST.height / 2, x = axis.x(mean[row]), beyond = mean[row] < axis.least || mean[row] > axis.most;
  const picture = svg("svg", { width: FOREST.width, height: FOREST.height, role: "img", class: "forest-line" },
    svg("title", null, `${name}: ${hundredths(mean[row])}${low[row] === null ? "" : `, 95 % interval ${hundredths(low[row])} to ${hundredths(high[row])}`}${paper[row] === null ? "" : `; paper ${hundredths(paper[row])}`}`));
  for (const tick of ticks(axis.least, axis.most, 4)) picture.append(svg("line", { x1: axis.x(tick), x2: axis.x(tick), y1: 0, y2: FOREST.height, class: "grid" }));
  if (low[row] !== null && !beyond) picture.append(svg("line", { x1: axis.x(low[row]), x2: axis.x(high[row]), y1: middle, y2: middle, class: "interval" }));
  if (paper[row] !== null) picture.append(svg("path", { d: `M${axis.x(paper[row])},${middle - 6}l4,6l-4,6l-4,-6Z`, class: "reported" }));
  if (beyond) {
    const way = mean[row] < axis.least ? -1 : 1;
    picture.append(svg("path", { d: `M${x},${middle}l${-7 * way},-5v10Z`, class: "beyond" }));
  } else picture.append(svg("circle", { cx: x, cy: middle, r: 4.2, class: best[row] ? "dot-best" : near[row] ? "dot-near" : "dot-worse" }));
  return picture;
}

function numberCell(place, line, { board, against }, seen) {
  const { numbers } = place, i = line.row;
  if (line.seed !== undefined) return h("td", { class: "number" }, hundredths(numbers.values[i][line.seed]));
  const mark = numbers.note[i] ? markOf([numbers.note[i]], board, seen) : null;
  const margin = numbers.margin?.[i];
  const count = Object.keys(numbers.values[i]).length;
  const title = margin === null || margin === undefined ? many(count, "seed")
    : `95 % interval ${hundredths(numbers.low[i])} to ${hundredths(numbers.high[i])}, over ${numbers.over[i]}; ${many(count, "seed")}`;
  let best = numbers.best?.[i] === 1, sign = null;
  if (against >= 0) {
    best = false;
    const difference = i === against ? null : place.to(i, against);
    if (difference?.holds) {
      const better = (difference.mean > 0) === index.metrics[place.metric].higher;
      sign = h("span", { class: better ? "better" : "worse", title: `${hundredths(difference.mean, true)} [${hundredths(difference.low, true)}, ${hundredths(difference.high, true)}], p ${pText(difference.p)}` },
        better ? "▲" : "▼", quiet(better ? " better" : " worse"));
    }
  }
  return h("td", { class: `number${best ? " best" : ""}`, title: numbers.mean[i] === null ? null : title },
    sign, h("span", { class: "mean" }, hundredths(numbers.mean[i])),
    marginOf(margin),
    best ? quiet(" best") : null,
    against < 0 && numbers.near?.[i] ? h("span", { class: "near", title: "not shown to be worse than the best" }, "◦") : null, mark);
}

function markOf(notes, board, seen) {
  // The letters of footnotes, which are given in the order in which a reader meets them.
  if (!notes) return null;
  for (const note of notes) if (!seen.has(note)) seen.set(note, letters(seen.size));
  return h("sup", { title: notes.map((note) => board.notes[note - 1]).join("; ") }, notes.map((note) => seen.get(note)).join(","));
}

function marginOf(margin) {
  return margin === null || margin === undefined ? null : h("span", { class: "margin" }, `± ${hundredths(margin)}`);
}

function legend(board, places, against, each) {
  if (each) return h("p", { class: "quiet" }, "Numbers are in percent, with one line for each seed.");
  const judged = places.some((place) => place.numbers.best);
  const marks = against >= 0
    ? [h("span", { class: "better" }, "▲"), " better and ", h("span", { class: "worse" }, "▼"), ` worse than ${board.rows[against].name}, p < .05 after Holm's correction over the rows of a column.`]
    : judged ? [h("b", { class: "bold" }, "Bold"), ": best mean of its column; ◦: not shown to be worse than it (paired, 5 % for the column)."] : [];
  const bare = places.filter((place) => !place.numbers.best).map((place) => index.metrics[place.metric].title);
  return h("p", { class: "quiet" }, "Numbers are in percent. ", marks,
    bare.length ? ` These columns have no intervals and marks here: ${[...new Set(bare)].join(", ")}; oodbench table --columns shows them.` : "");
}

function notesBelow(seen, board) {
  if (!seen.size) return null;
  return h("dl", { class: "notes" }, [...seen].map(([note, letter]) => [h("dt", null, letter), h("dd", null, board.notes[note - 1])]));
}

const LONG = 600; // letters of a sentence, such as a list of hundreds of methods

function sentencesBelow({ sentences }) {
  return h("div", { class: "sentences" }, sentences.map((text) => (text.length <= LONG ? h("p", null, text)
    : h("details", null, h("summary", null, `${text.slice(0, 160)} …`), h("p", null, text)))));
}

function facts(listed) {
  const short = ["oodbench", "torch", "device", "processor"].filter((name) => listed.facts[name]).map((name) =>
    h("span", null, h("b", null, name), " ", listed.facts[name]));
  const rest = Object.entries(listed.facts).filter(([name]) => !["oodbench", "torch", "device", "processor"].includes(name));
  return h("details", { class: "facts" },
    h("summary", null, h("span", null, h("b", null, "preset"), " ", listed.preset || "none"), short),
    h("p", { class: "quiet" }, "All results on this board share these values; results that differ in any of them are on another board."),
    h("dl", { class: "pairs" }, rest.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])));
}
