"use strict";
// One method in one setting under one seed: what it scored, how it was trained, what ran, and how to run it again.

function cellChunk(listed, column, seed, row) {
  return chunk(`cells-${listed.number}-${column}-${seed}-${Math.floor(row / index.rows_in_chunk)}`);
}

async function cell(state) {
  const listed = currentBoard(state), board = await chunk(`board-${listed.number}`);
  const column = columnOf(state, board), row = board.rows.findIndex((each) => each.method === state.method);
  const seeds = row < 0 ? [] : board.seeds[column]?.[row] || [];
  if (!seeds.length) return [h("h1", null, "No such cell"), h("p", null, `${listed.title} has no results of ${state.method || "this method"} in ${board.columns[column].title}. `, h("a", { href: shared(state, "leaderboard") }, "Back to the leaderboard"))];
  const seed = seeds.includes(Number(state.seed)) ? Number(state.seed) : seeds[0];
  const found = (await cellChunk(listed, column, seed, row))[row];
  const methods = board.rows.filter((_, i) => board.seeds[column][i].length).map((each) => [each.method, each.name]);
  const others = board.columns.filter((each, i) => !each.over && board.seeds[i][row].length).map((each) => [each.title, each.title]);
  const toolbar = h("div", { class: "toolbar" },
    select("Method", methods, state.method, (method) => go({ method, t: "" })),
    select("Setting", others, board.columns[column].title, (setting) => go({ setting, t: "" })),
    select("Seed", seeds.map((each) => [String(each), String(each)]), String(seed), (next) => go({ seed: next, t: "" })),
    h("a", { class: "button", href: shared(state, "compare", { a: state.method, b: board.rows[row === listed.baseline ? (row ? 0 : 1) : listed.baseline]?.method, seed }) }, "Compare with another"));
  return [
    h("h1", null, board.rows[row].name, h("small", null, `${listed.title}, ${board.columns[column].title}, seed ${seed}`)),
    toolbar,
    found.problem ? h("p", { class: "failed" }, h("b", null, "Failed: "), found.problem) : null,
    found.traceback ? h("pre", { tabindex: "0" }, found.traceback) : null,
    h("section", { class: "two" },
      h("div", null, h("h2", null, "Metrics"), metricsTable(found)),
      found.scores ? scoresPart(found.scores, state.t) : h("p", { class: "quiet" }, "This result has no raw scores.")),
    found.scores?.curve ? h("section", null, h("h2", null, "What a threshold flags"), rocPart(found)) : null,
    found.curves ? trainingPart(found.curves) : h("section", null, h("h2", null, "Training"), h("p", { class: "quiet" }, board.rows[row].given ? "The network was given, so nothing was trained." : "This result has no training log.")),
    h("section", null, h("h2", null, "Reproduce it"), copyable(found.command), found.remarks.map((text) => h("p", { class: "quiet" }, text))),
    provenance(found),
  ];
}

function metricsTable(found) {
  return h("table", { class: "small" }, h("caption", { class: "unseen" }, "Metrics in percent"), h("tbody", null, found.metrics.map(([name, text]) => {
    const metric = index.metrics[name];
    return h("tr", { title: metric.summary }, h("th", { scope: "row" }, `${metric.title} ${metric.arrow}`), h("td", { class: "number" }, text));
  })), found.epoch === undefined ? null : h("tfoot", null, h("tr", null, h("td", { colspan: 2, class: "quiet" }, `accuracies after epoch ${found.epoch}, which model selection chose`))));
}

function scoresPart(scores, chosen) {
  const names = Object.keys(SPLITS).filter((name) => scores.splits[name]);
  const quantiles = Object.fromEntries(names.map((name) => [name, quantilesOf(scores.splits[name])]));
  const range = rangeOf(Object.values(quantiles)), exact = scores.thresholds?.[2];
  const isChosen = chosen !== undefined && Number.isFinite(Number(chosen));
  const start = isChosen ? Number(chosen) : exact?.at ?? (range[0] + range[1]) / 2;
  const keep = (at) => history.replaceState(null, "", addressOf({ ...readAddress(), t: at }));
  const exactAt = (at) => scores.thresholds?.find((each) => each.at === at);
  const { picture, move } = ridges(scores, { range, width: ridgeWidth(), marker: start, label: "Densities of the scores of each split, with a threshold" });
  const shares = Object.fromEntries(names.map((name) => [name, h("td", { class: "number" })]));
  const value = h("output", { class: "number" });
  const STEPS = 1000;
  const toStep = (at) => Math.round(((at - range[0]) / (range[1] - range[0])) * STEPS);
  const say = (at, known) => {
    move(at);
    value.textContent = number(at);
    for (const name of names) shares[name].textContent = known ? hundredths(known[name]) : "≈ " + (100 * flaggedShare(quantiles[name], at)).toFixed(1);
    slider.setAttribute("aria-valuetext", `${number(at)}: ${names.map((name) => `${SPLITS[name]} ${shares[name].textContent} percent flagged`).join(", ")}`);
  };
  const slider = h("input", { type: "range", min: 0, max: STEPS, value: toStep(start), "aria-label": "Threshold", oninput: () => say(atSlider()), onchange: () => keep(atSlider()) });
  const atSlider = () => Number((range[0] + (slider.value / STEPS) * (range[1] - range[0])).toPrecision(6));
  const part = h("div", { class: "scores" }, h("h2", null, "Scores"),
    picture, slider,
    h("div", { class: "beside" },
      h("table", { class: "small" }, h("caption", null, "Flagged at threshold ", value, ", %"),
        h("tbody", null, names.map((name) => h("tr", null, h("th", { scope: "row" }, h("i", { class: `dot ${name}` }), SPLITS[name], h("span", { class: "quiet" }, ` ${scores.splits[name].rows.toLocaleString("en-US")} images`)), shares[name])))),
      scores.thresholds ? h("table", { class: "small" }, h("caption", null, "Exact shares flagged, %"),
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "Threshold"), names.map((name) => h("th", { scope: "col", class: "number" }, SPLITS[name].replace(" OOD", ""))))),
        h("tbody", null, scores.thresholds.map((each) => h("tr", null,
          h("td", null, each.at === null ? "above all" : h("button", { type: "button", class: "plain", title: "Move the threshold here", onclick: () => { slider.value = toStep(each.at); say(each.at, each); keep(each.at); } }, number(each.at))),
          names.map((name) => h("td", { class: "number" }, hundredths(each[name]))))))) : null),
    h("p", { class: "quiet" }, "A score at or above the threshold is flagged as OOD. Each density has its own scale and is drawn from 257 quantiles, so shares at a moved threshold are accurate to 0.4 %. The shares in the table are exact."));
  say(start, exactAt(start));
  return part;
}

function ridgeWidth() {
  const wide = document.getElementById("main").clientWidth;
  return Math.min(720, wide > 740 ? wide - 330 : wide);
}

function rocPart(found) {
  const { curve } = found.scores, percent = (list) => list.map((value) => value / 100);
  const series = Object.keys(curve).filter((name) => name !== "id").map((name) => ({
    label: SPLITS[name], values: percent(curve[name]), colour: `--${name}`, dash: name === "semantic" ? [] : [6, 3],
  }));
  const auroc = found.metrics.find(([name]) => name === "auroc");
  const plot = (title, end) => {
    const kept = curve.id.filter((value) => value <= end).length;
    return linePlot({ title, x: percent(curve.id).slice(0, kept), xLabel: "ID flagged, %", unit: " %", height: 230, range: [0, 100], points: false,
      series: series.map((each) => ({ ...each, values: each.values.slice(0, kept) })) });
  };
  return [h("div", { class: "panels" }, plot("ROC: share flagged against share of ID flagged, %", 10000), plot("The same curves up to 10 % of ID", 1000)),
    h("p", { class: "quiet" }, auroc ? `The solid line is the ROC curve; its area is the AUROC, ${auroc[1]}. ` : "", "Covariate OOD images have known classes: a good detector flags few of them.")];
}

function trainingPart(curves) {
  return h("section", null, h("h2", null, "Training"), h("div", { class: "panels" }, curves.panels.map(([title, lines]) =>
    linePlot({ title, x: curves.epochs, xLabel: "epoch", series: Object.entries(lines).slice(0, 8).map(([label, values]) => ({ label: label.replaceAll("_", " "), values })) }))));
}

function flattened(value, prefix = "") {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value) && value.every((each) => typeof each !== "object")) return value.length ? [[prefix, value.join(", ")]] : [];
  if (typeof value !== "object") return [[prefix, String(value)]];
  return Object.entries(value).flatMap(([key, inner]) => flattened(inner, prefix ? `${prefix}.${key}` : key));
}

function provenance(found) {
  const list = (title, value, open) => {
    const pairs = flattened(value);
    return pairs.length ? h("details", { open }, h("summary", null, h("h3", null, title)), h("dl", { class: "pairs" }, pairs.map(([key, text]) => [h("dt", null, key), h("dd", null, text)]))) : null;
  };
  const { method, recipe, setting, suite, code, ...rest } = found.config;
  return h("section", { class: "provenance" }, h("h2", null, "Where it comes from"),
    list("Method", { ...method, ...rest }, true), list("Setting", setting, true),
    list("Seconds", found.seconds, true), list("Machine", { device: found.device, ...found.machine }, true),
    list("Versions", { ...found.versions, commit: found.commit }, true),
    list("Notes", found.notes, true),
    list("Recipe", recipe), list("Suite", suite), list("Code", code),
    list("Data fingerprints", found.data?.sets), list("Images in each split", found.data?.parts),
    list("Keys", { key: found.key, variant: found.variant, training: found.training, weights: found.weights, written: found.written, seeds: found.seeds }));
}
