"use strict";
// Rows and columns of the leaderboard that form a sweep. Accuracies and FPR have panels of their own.

async function sweeps(state) {
  const listed = currentBoard(state), board = await chunk(`board-${listed.number}`);
  const having = index.boards.filter((each) => each.sweeps);
  const head = [h("h1", null, "Sweeps", h("small", null, listed.title))];
  const toolbar = h("div", { class: "toolbar" }, boardFields(state, board), rowFields(state, board));
  if (!board.sweeps.length) {
    return [...head, toolbar, h("p", null, "This board has no sweep. A sweep is a method with two values of a hyperparameter, such as --set scone.margin=-1,-2; settings that differ in π_c; or several kinds of covariate shift."),
      having.length ? h("p", null, "Boards with a sweep: ", having.map((each, i) => [i ? ", " : "", h("a", { href: addressOf({ view: "sweeps", board: each.id }) }, each.title)])) : null];
  }
  const column = columnOf(state, board);
  const draw = { hyperparameter: hyperparameterSweep, ratio: ratioSweep, corruptions: corruptionMap };
  return [...head, toolbar, board.sweeps.map((sweep) => draw[sweep.kind](sweep, board, state, column)), sentencesBelow(board)];
}

function sweepPanels(board, labels, xLabel, series) {
  // series: [{label, at: (numbers) => [value in hundredths]}]
  const metrics = index.usual.filter((name) => board.metrics.includes(name));
  return h("div", { class: "panels" }, metrics.map((name) => {
    const metric = index.metrics[name];
    const drawn = series.map((each) => ({ label: each.label, values: each.at(board.numbers[name]).map((value) => (value === null ? null : value / 100)) }));
    const known = drawn.flatMap((each) => each.values).filter((value) => value !== null);
    const log = name === "fpr95" && known.length && Math.min(...known) < 2 && Math.max(...known) > 10 * Math.max(Math.min(...known), 0.01);
    if (log) for (const each of drawn) each.values = each.values.map((value) => (value === null ? null : Math.max(value, 0.01)));
    return linePlot({ title: `${metric.title} ${metric.arrow}, %${log ? ", logarithmic" : ""}`, x: labels, xValues: labels.map((value) => number(value)), xLabel, series: drawn, log });
  }));
}

function hyperparameterSweep(sweep, board, state, column) {
  const values = sweep.points.map(([value]) => value);
  return h("section", null, h("h2", null, `${sweep.title}: ${sweep.axis}`, h("small", null, board.columns[column].title)),
    sweepPanels(board, values, sweep.axis, [{ label: sweep.title, at: (numbers) => sweep.points.map(([, row]) => numbers[column].mean[row]) }]));
}

function ratioSweep(sweep, board, state) {
  const rows = board.rows.map((_, i) => i).filter((i) => fits(board.rows[i], state)
    && sweep.points.filter(([, column]) => board.numbers[board.metrics[0]][column].mean[i] !== null).length > 1);
  return h("section", null, h("h2", null, "Covariate share of the wild mixture, π_c", h("small", null, sweep.title)),
    rows.length ? sweepPanels(board, sweep.points.map(([value]) => value), sweep.axis, rows.slice(0, 8).map((i) => ({ label: board.rows[i].name, at: (numbers) => sweep.points.map(([, column]) => numbers[column].mean[i]) }))) : h("p", null, "No method matches."),
    rows.length > 8 ? h("p", { class: "said" }, `8 of ${rows.length} methods are drawn; choose a group or search to see others.`) : null);
}

function corruptionMap(sweep, board, state) {
  const metrics = index.usual.filter((name) => board.metrics.includes(name));
  const name = metrics.includes(state.metric) ? state.metric : metrics[0], metric = index.metrics[name];
  const rows = board.rows.map((_, i) => i).filter((i) => fits(board.rows[i], state));
  const severities = new Set(sweep.points.map(([, severity]) => severity));
  const at = (i, column) => board.numbers[name][column].mean[i];
  const known = rows.flatMap((i) => sweep.points.map(([, , column]) => at(i, column))).filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const shade = (value) => { const share = high > low ? (value - low) / (high - low) : 0.5; return Math.round((metric.higher ? share : 1 - share) * 10); };
  return h("section", null, h("h2", null, "Kinds of covariate shift", h("small", null, sweep.title)),
    h("div", { class: "toolbar" }, select("Metric", metrics.map((each) => [each, `${index.metrics[each].title} ${index.metrics[each].arrow}`]), name, (next) => go({ metric: next }))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Heat map" }, h("table", { class: "heat" },
      h("caption", { class: "unseen" }, `${metric.title} in percent by method and kind of covariate shift`),
      h("thead", null, h("tr", null, h("th", { scope: "col", class: "name" }, "Method"), sweep.points.map(([kind, severity]) => h("th", { scope: "col" }, severities.size > 1 ? `${kind} ${severity}` : kind)))),
      h("tbody", null, rows.map((i) => h("tr", null, h("th", { scope: "row", class: "name" }, board.rows[i].name), sweep.points.map(([, , column]) => {
        const value = at(i, column);
        return h("td", { class: value === null ? "number" : `number heat${shade(value)}` }, value === null ? "–" : (value / 100).toFixed(1));
      })))))),
    h("p", { class: "quiet" }, `${metric.title} in percent; darker is better, from ${hundredths(metric.higher ? low : high)} to ${hundredths(metric.higher ? high : low)}. ${metric.summary[0].toUpperCase()}${metric.summary.slice(1)}.`));
}
