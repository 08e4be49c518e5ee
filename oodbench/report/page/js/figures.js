"use strict";
// What the scores of a cell look like. Python ships 257 quantiles of each split; exact figures are beside them.

const SPLITS = { id: "ID", covariate: "Covariate OOD", semantic: "Semantic OOD" };

function quantilesOf(split) {
  let place = 0;
  return split.steps.map((step) => split.start + (place += step) * split.unit);
}

function flaggedShare(quantiles, threshold) {
  // The share of scores at or above a threshold, between two quantiles by a straight line.
  const last = quantiles.length - 1;
  if (threshold <= quantiles[0]) return 1;
  if (threshold > quantiles[last]) return 0;
  let low = 0, high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (quantiles[middle] < threshold) low = middle; else high = middle;
  }
  const width = quantiles[high] - quantiles[low];
  return 1 - (low + (width > 0 ? (threshold - quantiles[low]) / width : 1)) / last;
}

function rangeOf(all) {
  // What is drawn: all but the farthest hundredth on either side, with some room.
  const low = Math.min(...all.map((each) => each[3])), high = Math.max(...all.map((each) => each[each.length - 4]));
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

function densityOf(quantiles, [low, high], bins) {
  // Each gap between two quantiles holds 1/256 of the images; spread over bins, then smoothed a little.
  const mass = new Float64Array(bins), width = (high - low) / bins, last = quantiles.length - 1;
  const bin = (value) => (value - low) / width;
  for (let i = 0; i < last; i++) {
    const from = bin(quantiles[i]), to = bin(quantiles[i + 1]);
    const first = Math.max(0, Math.floor(from)), end = Math.min(bins - 1, Math.floor(to));
    if (to - from < 1e-9) {
      if (from >= 0 && from < bins) mass[first] += 1 / last;
      continue;
    }
    for (let b = first; b <= end; b++) {
      const overlap = Math.min(to, b + 1) - Math.max(from, b);
      if (overlap > 0) mass[b] += overlap / (to - from) / last;
    }
  }
  const kernel = [0.06, 0.12, 0.2, 0.24, 0.2, 0.12, 0.06];
  return Array.from(mass, (_, b) => kernel.reduce((sum, weight, k) => sum + weight * (mass[b + k - 3] || 0), 0));
}

function ridges(scores, options) {
  // A row for each split, each to its own height: one that is all in one place does not flatten the others.
  const { range, width = 640, marker, label } = options;
  const names = Object.keys(SPLITS).filter((name) => scores.splits[name]);
  const row = 74, top = 6, bottom = 26, height = top + names.length * row + bottom, bins = 140;
  const x = (value) => ((value - range[0]) / (range[1] - range[0])) * width;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "ridges", role: "img", "aria-label": label });
  const flagged = {};
  names.forEach((name, i) => {
    const density = densityOf(quantilesOf(scores.splits[name]), range, bins);
    const highest = Math.max(...density) || 1, base = top + (i + 1) * row;
    const points = density.map((d, b) => `${(((b + 0.5) / bins) * width).toFixed(1)},${(base - (d / highest) * (row - 20)).toFixed(1)}`);
    const path = `M0,${base}L${points.join("L")}L${width},${base}Z`;
    const end = Math.ceil(bins * 0.22), left = Math.max(...density.slice(0, end)) <= Math.max(...density.slice(-end)); // where there is room
    const clip = `past-${name}-${ridges.count++}`;
    flagged[name] = svg("rect", { x: 0, y: 0, width, height });
    picture.append(
      svg("clipPath", { id: clip }, flagged[name]),
      svg("path", { d: path, class: `ridge ${name}` }),
      svg("path", { d: path, class: `ridge ${name} past`, "clip-path": `url(#${clip})` }),
      svg("line", { x1: 0, x2: width, y1: base, y2: base, class: "axis" }),
      svg("text", { x: left ? 4 : width - 4, y: base - row + 26, class: "label", "text-anchor": left ? "start" : "end" }, SPLITS[name]),
    );
  });
  for (const tick of ticks(range[0], range[1], Math.max(3, Math.round(width / 110)))) {
    picture.append(svg("text", { x: x(tick), y: height - 8, class: "tick", "text-anchor": "middle" }, number(tick)));
  }
  const line = svg("line", { y1: 0, y2: height - bottom, class: "threshold" });
  if (marker !== undefined) picture.append(line);
  const move = (value) => {
    const at = Math.max(0, Math.min(width, x(value)));
    line.setAttribute("x1", at); line.setAttribute("x2", at);
    for (const name of names) { flagged[name].setAttribute("x", at); flagged[name].setAttribute("width", Math.max(0, width - at)); }
  };
  move(marker === undefined ? Infinity : marker);
  return { picture, move };
}
ridges.count = 0;

function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  return found;
}

function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "−");
}
