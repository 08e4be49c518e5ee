"use strict";
// OOD accuracy against FPR: best is at the top left. Scorers of one network have one accuracy and are joined by a line.

async function tradeoff(state) {
  const listed = currentBoard(state), board = await chunk(`board-${listed.number}`), column = columnOf(state, board);
  const toolbar = (more) => h("div", { class: "toolbar" }, boardFields(state, board), rowFields(state, board), more);
  const head = [h("h1", null, "Trade-off", h("small", null, `${listed.title}, ${board.columns[column].title}`))];
  const accuracy = board.numbers.covariate_acc?.[column], missed = board.numbers.fpr95?.[column];
  if (!accuracy || !missed) return [...head, toolbar(), h("p", null, "This board lacks FPR or accuracy under covariate shift: the trade-off needs a covariate and a semantic set.")];
  const points = board.rows.map((row, i) => ({ row, i, x: missed.mean[i], y: accuracy.mean[i] }))
    .filter((point) => point.x !== null && point.y !== null && fits(point.row, state));
  const lowest = Math.min(...points.map((point) => point.x)), highest = Math.max(...points.map((point) => point.x));
  const log = state.x ? state.x === "log" : points.length > 1 && (lowest < 200 || highest > 15 * lowest);
  const scale = select("FPR axis", [["log", "Logarithmic"], ["linear", "Linear"]], log ? "log" : "linear", (x) => go({ x }));
  const names = toggle("Intervals", state.bars !== "0", (on) => go({ bars: on ? "" : "0" }));
  const front = board.front[column].filter((i) => points.some((point) => point.i === i));
  const shared = [...networksOf(points).values()].filter((some) => some.length > 1);
  return [...head, toolbar([scale, names]),
    points.length ? h("div", { class: "wide" }, scatter(points, { accuracy, missed, front, log, bars: state.bars !== "0", listed, board, column })) : h("p", null, "No method matches."),
    h("p", { class: "quiet" }, "Numbers are in percent. Bars are 95 % intervals; of 8 or more methods on one network only that of the accuracy is drawn. A method far from all others stands at the edge with its numbers. The stepped line is the Pareto front: no method beats those on it in both accuracy and FPR.",
      shared.length ? ` A thin line joins methods that share one network per seed and therefore one accuracy: ${shared.map((some) => many(some.length, "method")).join(", ")}.` : ""),
    h("h2", null, "On the front"),
    h("ol", { class: "front" }, front.map((i) => h("li", null, board.rows[i].name, h("span", { class: "quiet" }, ` FPR ${hundredths(missed.mean[i])}, OOD Acc. ${hundredths(accuracy.mean[i])}`)))),
    sentencesBelow(board)];
}

function networksOf(points) {
  const groups = new Map();
  for (const point of points) groups.set(point.row.network, [...(groups.get(point.row.network) || []), point]);
  return groups;
}

function scatter(points, { accuracy, missed, front, log, bars, listed, board, column }) {
  const width = Math.max(340, Math.min(1120, document.getElementById("main").clientWidth - 8));
  const height = networksOf(points).size === 1 ? 340 : Math.min(560, Math.max(360, width * 0.56));
  const pad = { left: 48, right: 18, top: 14, bottom: 42 };
  const floor = 1; // a hundredth of a percent: what is below stands at the axis, under 0
  const place = log ? (value) => Math.log10(Math.max(value, floor)) : (value) => value;
  // One method that lies far from the others would leave them no room: it does not rule an axis.
  const [xLow, xHigh] = log ? [0, 10000] : withoutOutliers(points.map((p) => p.x).sort((a, b) => a - b));
  const [yLow, yHigh] = withoutOutliers(points.map((p) => p.y).sort((a, b) => a - b));
  const isFar = (p) => p.x < xLow || p.x > xHigh || p.y < yLow || p.y > yHigh;
  const near = points.filter((p) => !isFar(p));
  const xs = near.map((p) => place(p.x)), ys = near.map((p) => p.y);
  const room = (low, high, share) => [low - (high - low || 1) * share, high + (high - low || 1) * share];
  const [x0, x1] = room(Math.min(...xs), Math.max(...xs), 0.06);
  // Where all have about one accuracy, its interval says how much of the axis to show.
  const least = Math.max(100, ...near.map(({ i }) => accuracy.margin?.[i] ?? 0));
  const middle = (Math.min(...ys) + Math.max(...ys)) / 2;
  const [y0, y1] = room(Math.min(...ys, middle - least), Math.max(...ys, middle + least), 0.12);
  const inside = (value, low, high) => Math.max(low, Math.min(high, value));
  const x = (value) => inside(pad.left + ((place(value) - x0) / (x1 - x0)) * (width - pad.left - pad.right), pad.left, width - pad.right);
  const y = (value) => inside(height - pad.bottom - ((value - y0) / (y1 - y0)) * (height - pad.top - pad.bottom), pad.top, height - pad.bottom);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "scatter", role: "group", "aria-label": "OOD accuracy against FPR" });
  const xTicks = log ? [1, 10, 100, 1000, 10000].flatMap((p) => [p, 2 * p, 5 * p]).filter((v) => v <= 10000 && place(v) >= x0 && place(v) <= x1)
    : ticks(Math.max(0, x0), Math.min(10000, x1), width / 110);
  for (const tick of xTicks) {
    picture.append(svg("line", { x1: x(tick), x2: x(tick), y1: pad.top, y2: height - pad.bottom, class: "grid" }),
      svg("text", { x: x(tick), y: height - pad.bottom + 16, class: "tick", "text-anchor": "middle" }, log && tick === floor && points.some((p) => p.x < floor) ? "0" : number(tick / 100)));
  }
  for (const tick of ticks(y0, y1, height / 70).filter((v) => v <= 10000)) {
    picture.append(svg("line", { x1: pad.left, x2: width - pad.right, y1: y(tick), y2: y(tick), class: "grid" }),
      svg("text", { x: pad.left - 8, y: y(tick) + 4, class: "tick", "text-anchor": "end" }, number(tick / 100)));
  }
  picture.append(svg("text", { x: width - pad.right, y: height - 8, class: "label", "text-anchor": "end" }, `FPR ↓ (%)${log ? ", logarithmic" : ""}`),
    svg("text", { x: pad.left, y: pad.top - 2, class: "label" }, "OOD Acc. ↑ (%)"));
  for (const some of networksOf(points).values()) {
    if (some.length > 1) {
      const at = some.map((p) => x(p.x));
      picture.append(svg("line", { x1: Math.min(...at), x2: Math.max(...at), y1: y(some[0].y), y2: y(some[0].y), class: "network" }));
    }
  }
  if (front.length > 1) {
    const steps = front.map((i, k) => `${k ? `L${x(missed.mean[i])},${y(accuracy.mean[front[k - 1]])}L` : "M"}${x(missed.mean[i])},${y(accuracy.mean[i])}`);
    picture.append(svg("path", { d: steps.join(""), class: "pareto" }));
  }
  const crowded = new Map([...networksOf(points)].filter(([, some]) => some.length >= CROWD).map(([network, some]) => [network, { some, drawn: false }]));
  if (bars) {
    for (const { i, x: a, y: b } of near) {
      const across = missed.low?.[i] !== null && missed.low, up = accuracy.low?.[i] !== null && accuracy.low;
      if (across && !crowded.has(board.rows[i].network)) picture.append(svg("line", { x1: inside(x(missed.low[i]), pad.left, width), x2: inside(x(missed.high[i]), 0, width - pad.right), y1: y(b), y2: y(b), class: "bar" }));
      if (up && !crowded.get(board.rows[i].network)?.drawn) picture.append(svg("line", { x1: x(a), x2: x(a), y1: inside(y(accuracy.low[i]), pad.top, height - pad.bottom), y2: inside(y(accuracy.high[i]), pad.top, height - pad.bottom), class: "bar" }));
      if (crowded.has(board.rows[i].network)) crowded.get(board.rows[i].network).drawn = true; // one network has one interval
    }
  }
  const groups = [...new Set(board.rows.map((row) => row.group))];
  const taken = points.map((p) => [x(p.x) - 6, y(p.y) - 6, x(p.x) + 6, y(p.y) + 6]);
  const overlaps = (box) => taken.some((o) => box[0] < o[2] && box[2] > o[0] && box[1] < o[3] && box[3] > o[1]);
  const order = [...points].sort((p, q) => front.includes(q.i) - front.includes(p.i));
  const slanted = slantedNames([...crowded.values()].map(({ some }) => some).filter((some) => some.length <= NAMED), x, y, width - pad.right);
  let unnamed = 0;
  for (const point of order) {
    const { row, i, x: a, y: b } = point, far = isFar(point);
    const label = far ? `${row.name} (${(b / 100).toFixed(1)} at FPR ${(a / 100).toFixed(1)})` : row.name;
    const cx = x(a), cy = y(b), wide = label.length * 6.3 + 4;
    const spots = [[cx + 8, cy - 6], [cx - 8 - wide, cy - 6], [cx + 8, cy + 10], [cx - wide / 2, cy - 13], [cx - wide / 2, cy + 17], [cx - 8 - wide, cy + 10],
      ...[28, 40, 52, 64, 76, 88, 100].flatMap((d) => [[cx + 6, cy - d], [cx - wide - 6, cy - d], [cx + 6, cy + d], [cx - wide - 6, cy + d]])];
    const spot = spots.map(([left, base]) => [left, base - 10, left + wide, base + 3])
      .find((box) => (points.length <= NAMED || front.includes(i) || far) && box[0] > pad.left && box[2] < width - 2 && box[1] > pad.top && box[3] < height - pad.bottom && !overlaps(box));
    const seed = board.seeds[column]?.[i]?.[0], slant = slanted.get(i);
    const mark = svg("g", { class: `point g${groups.indexOf(row.group) % 6}${front.includes(i) ? " best" : ""}${far ? " far" : ""}` }, shape(groups.indexOf(row.group), cx, cy),
      svg("title", null, `${row.name}: FPR ${hundredths(a)}, OOD Acc. ${hundredths(b)}`));
    if (slant) {
      mark.append(svg("path", { d: `M${cx},${cy}L${slant.x},${slant.y}`, class: "leader" }),
        svg("text", { class: "name", transform: `translate(${slant.x},${slant.y}) rotate(-58)`, "text-anchor": slant.up ? "start" : "end", dx: slant.up ? 3 : -3, dy: 4 }, row.name));
    } else if (spot) {
      taken.push(spot);
      if (Math.abs(spot[3] - cy) > 20) mark.append(svg("line", { x1: cx, y1: cy, x2: spot[0] > cx ? spot[0] : spot[2], y2: spot[3] - 6, class: "leader" }));
      mark.append(svg("text", { x: spot[0] + 2, y: spot[3] - 3, class: "name" }, label));
    } else unnamed++;
    const target = seed === undefined ? null : addressOf({ view: "cell", board: listed.id, setting: board.columns[column].title, method: row.method, seed });
    picture.append(target ? svg("a", { href: target, "aria-label": `${row.name}: FPR ${hundredths(a)}, OOD accuracy ${hundredths(b)}` }, mark) : mark);
  }
  const key = h("ul", { class: "key" }, groups.filter((g) => points.some((p) => p.row.group === g)).map((group) =>
    h("li", null, svg("svg", { width: 14, height: 14, class: `point g${groups.indexOf(group) % 6}`, "aria-hidden": "true" }, shape(groups.indexOf(group), 7, 7)), group || "Methods")));
  return h("figure", null, picture, h("figcaption", null, key, unnamed ? h("p", { class: "quiet" }, `${many(unnamed, "name")} did not fit; hover over a marker or search to see which method it is.`) : null));
}

const NAMED = 60; // of more methods than these only those on the front are named
const CROWD = 8; // so many methods of one network stand on one line that their names are slanted

function slantedNames(crowds, x, y, right) {
  // By turns above and below the line, each as near to its point as the one before it allows.
  const found = new Map();
  for (const some of crowds) {
    const last = { true: -Infinity, false: -Infinity };
    const order = [...some].sort((p, q) => p.x - q.x);
    order.forEach((point) => {
      const at = x(point.x), up = last.true <= last.false;
      last[up] = Math.max(at, last[up] + 14);
      found.set(point.i, { x: last[up], y: y(point.y) + (up ? -22 : 22), up });
    });
    for (const up of [true, false]) {
      // A row that runs out at the right is moved back.
      const own = order.map((point) => found.get(point.i)).filter((each) => each.up === up).reverse();
      let edge = right - (up ? 50 : 0);
      for (const each of own) { each.x = Math.min(each.x, edge); edge = each.x - 14; }
    }
  }
  return found;
}

function shape(group, x, y) {
  const kinds = [
    () => svg("circle", { cx: x, cy: y, r: 4.2 }),
    () => svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }),
    () => svg("path", { d: `M${x},${y - 5}L${x + 5},${y + 4}L${x - 5},${y + 4}Z` }),
    () => svg("path", { d: `M${x},${y - 5.5}L${x + 5.5},${y}L${x},${y + 5.5}L${x - 5.5},${y}Z` }),
    () => svg("path", { d: `M${x},${y + 5}L${x + 5},${y - 4}L${x - 5},${y - 4}Z` }),
    () => svg("path", { d: `M${x - 5},${y}H${x + 5}M${x},${y - 5}V${y + 5}`, class: "cross" }),
  ];
  return kinds[group % kinds.length]();
}
