"use strict";
// Two methods of one board. Intervals come from Python; where it shipped none for a pair, the page says so.

async function compare(state) {
  const listed = currentBoard(state), board = await chunk(`board-${listed.number}`), pairs = await chunk(`pairs-${listed.number}`);
  const row = (method, other) => { const i = board.rows.findIndex((each) => each.method === method); return i >= 0 ? i : other; };
  const b = row(state.b, listed.baseline), column = columnOf(state, board);
  const a = row(state.a, mostTelling(board, pairs, column, b)), methods = board.rows.map((each) => [each.method, each.name]);
  const toolbar = h("div", { class: "toolbar" }, boardFields(state, board),
    select("Method", methods, board.rows[a]?.method, (method) => go({ a: method, b: board.rows[b].method })),
    select("minus", methods, board.rows[b].method, (method) => go({ b: method, a: board.rows[a].method })),
    h("button", { type: "button", onclick: () => go({ a: board.rows[b].method, b: board.rows[a].method }) }, "Swap"));
  if (a < 0) return [h("h1", null, "Compare"), toolbar, h("p", null, "This board has only one method, so there is nothing to compare.")];
  const names = [board.rows[a].name, board.rows[b].name];
  const metrics = index.usual.filter((name) => board.metrics.includes(name));
  return [
    h("h1", null, `${names[0]} − ${names[1]}`, h("small", null, `${listed.title}, ${board.columns[column].title}`)), toolbar,
    a === b ? h("p", null, "You are comparing a method with itself; choose another one.") : null,
    differenceTable(board, pairs, metrics, [column], a, b, names),
    board.columns.length > 1 ? h("details", null, h("summary", null, "All settings"), differenceTable(board, pairs, metrics, board.columns.map((_, i) => i), a, b, names)) : null,
    board.rows[a].network === board.rows[b].network ? h("p", { class: "quiet" }, "Both methods score the same network for each seed, so their accuracies are identical.") : null,
    perSeed(board, metrics, column, a, b, names),
    await densities(state, listed, board, column, a, b),
  ];
}

function mostTelling(board, pairs, column, b) {
  // Against the baseline: most metrics that differ; of equals, the better rank.
  const metrics = index.usual.filter((name) => board.metrics.includes(name));
  const name = rankedBy(board), ranked = (name && board.numbers[name][column].rank) || [];
  const rate = (i) => metrics.filter((metric) => pairIndex(pairs, metric, column)(i, b)?.holds).length;
  const others = board.rows.map((_, i) => i).filter((i) => i !== b);
  others.sort((i, j) => rate(j) - rate(i) || (ranked[i]?.[0] ?? 1e9) - (ranked[j]?.[0] ?? 1e9) || i - j);
  return others.length ? others[0] : -1;
}

function differenceTable(board, pairs, metrics, columns, a, b, names) {
  let lacking = 0;
  const rows = columns.flatMap((column) => metrics.map((name) => {
    const metric = index.metrics[name], numbers = board.numbers[name][column], found = pairIndex(pairs, name, column)(a, b);
    const mean = (i) => [hundredths(numbers.mean[i]), marginOf(numbers.margin?.[i])];
    if (!found && numbers.mean[a] !== null && numbers.mean[b] !== null && a !== b) lacking++;
    const better = found && (found.mean > 0) === metric.higher;
    return h("tr", null, columns.length > 1 ? h("td", null, board.columns[column].title) : null,
      h("th", { scope: "row", title: metric.summary }, `${metric.title} ${metric.arrow}`), h("td", { class: "number" }, mean(a)), h("td", { class: "number" }, mean(b)),
      h("td", { class: "number" }, found ? [h("b", null, hundredths(found.mean, true)), ` [${hundredths(found.low, true)}, ${hundredths(found.high, true)}]`] : "–"),
      h("td", { class: "number" }, found ? pText(found.p) : "–"),
      h("td", null, !found ? "" : found.mean === 0 && found.low === 0 && found.high === 0 ? "the same" : !found.holds ? "not distinguishable" : h("span", { class: better ? "better" : "worse" }, better ? "▲ better" : "▼ worse")),
      h("td", { class: "quiet" }, found ? `${found.over}, ${many(found.seeds, "seed")}` : ""));
  }));
  const heads = [...(columns.length > 1 ? ["Setting"] : []), "Metric", names[0], names[1], "Difference, 95 % interval", "p after Holm", "", "Interval over"];
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences" }, h("table", { class: "board" },
    h("thead", null, h("tr", null, heads.map((text) => h("th", { scope: "col", class: [names[0], names[1], "Difference, 95 % interval", "p after Holm"].includes(text) ? "number" : null }, text || quiet("Verdict"))))), h("tbody", null, rows))),
    lacking ? h("p", { class: "said" }, pairs.every ? "A dash means that the two methods share no seed here, or that there is too little data to judge them."
      : `This board has more than 40 methods, so the page holds intervals only against ${board.rows[pairs.baseline].name} and the best method of each column. For other pairs, the differences for each seed are below; oodbench compare --baseline computes their intervals.`) : null,
    columns.length > 1 ? null : h("p", { class: "quiet" }, `Differences are in percentage points, paired over the seeds and test images that both methods have. p is corrected by Holm's method over all methods compared with ${names[1]}.`)];
}

function perSeed(board, metrics, column, a, b, names) {
  const seeds = [...new Set(metrics.flatMap((name) => Object.keys(board.numbers[name][column].values[a]).filter((seed) => seed in board.numbers[name][column].values[b])))].sort((s, t) => s - t);
  if (!seeds.length) return h("p", { class: "said" }, "The two methods share no seed; run them with the same --seeds.");
  return h("section", null, h("h2", null, "For each seed"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences for each seed" }, h("table", { class: "board" },
    h("caption", { class: "unseen" }, `${names[0]} minus ${names[1]} for each seed, in percentage points`),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Metric"), seeds.map((seed) => h("th", { scope: "col", class: "number" }, `seed ${seed}`)))),
    h("tbody", null, metrics.map((name) => {
      const { values } = board.numbers[name][column];
      return h("tr", null, h("th", { scope: "row" }, `${index.metrics[name].title} ${index.metrics[name].arrow}`), seeds.map((seed) => {
        const [one, other] = [values[a][seed], values[b][seed]];
        return h("td", { class: "number" }, one === undefined || other === undefined ? "–" : hundredths(one - other, true));
      }));
    })))), h("p", { class: "quiet" }, "Differences are between the numbers as printed."));
}

async function densities(state, listed, board, column, a, b) {
  const seeds = (board.seeds[column]?.[a] || []).filter((seed) => board.seeds[column][b].includes(seed));
  if (!seeds.length) return board.columns[column].over ? h("p", { class: "quiet" }, "An average has no scores of its own; choose a setting to see densities.") : null;
  const seed = seeds.includes(Number(state.seed)) ? Number(state.seed) : seeds[0];
  const found = await Promise.all([a, b].map(async (i) => (await cellChunk(listed, column, seed, i))[i]));
  const one = (i, { scores }) => {
    const title = h("h3", null, h("a", { href: addressOf({ view: "cell", board: listed.id, setting: board.columns[column].title, method: board.rows[i].method, seed }) }, board.rows[i].name));
    if (!scores) return h("div", null, title, h("p", { class: "quiet" }, "This result has no raw scores."));
    const range = rangeOf(Object.values(scores.splits).map(quantilesOf)), at = scores.thresholds?.[2]?.at;
    return h("div", null, title, ridges(scores, { range, width: Math.min(520, document.getElementById("main").clientWidth), marker: at ?? undefined, label: `Densities of the scores of ${board.rows[i].name}` }).picture);
  };
  return h("section", null, h("h2", null, "Scores"), h("div", { class: "toolbar" }, select("Seed", seeds.map((each) => [String(each), String(each)]), String(seed), (next) => go({ seed: next }))),
    h("div", { class: "panels two" }, one(a, found[0]), one(b, found[1])),
    h("p", { class: "quiet" }, "The line is the FPR threshold, which flags about 5 % of ID images. Each method's scores have their own scale."));
}
