"use strict";
// Lines, by uPlot: colors come from the style sheet, and every line differs in its dashes too.

const LINES = [
  ["--blue", []], ["--vermilion", [7, 3]], ["--green", [2, 2]], ["--ink", [10, 3, 2, 3]],
  ["--purple", [5, 2]], ["--orange", [1, 2]], ["--sky", [12, 4]], ["--soft", [3, 5]],
];
const plots = new Set();

function style(name) {
  // A canvas knows no variables and no themes: an element says which color it is now.
  const probe = h("i", { class: "unseen" });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function linePlot({ title, x, xLabel, xValues, series, height = 190, log, range, unit, points = x.length < 40 }) {
  // series: [{label, values, color?, dash?}]
  const place = h("div", { class: "plot" });
  const figure = h("figure", { class: "panel" }, h("figcaption", null, title), place);
  const ink = style("--quiet"), grid = style("--line"), font = "11px system-ui, sans-serif";
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 }, font, labelFont: font };
  const shown = (value) => (value === null || value === undefined ? "–" : number(Number(value.toPrecision(4))) + (unit || ""));
  const options = {
    width: 320, height,
    scales: { x: { time: false, range: xValues ? [-0.3, x.length - 0.7] : undefined }, y: log ? { distr: 3 } : range ? { range } : {} },
    axes: [
      { ...axis, label: xLabel, labelSize: 16, size: 30, space: 44,
        ...(xValues ? { splits: () => x.map((_, i) => i), values: (_, at) => at.map((i) => xValues[i] ?? "") } : {}) },
      { ...axis, size: 52, values: (_, at) => at.map((value) => (value === null ? "" : number(value))) },
    ],
    series: [
      { label: xLabel || "x", value: (_, value) => (value === null ? "–" : xValues ? xValues[value] ?? "–" : number(value)) },
      ...series.map((each, i) => {
        const [colour, dash] = LINES[i % LINES.length];
        return {
          label: each.label, stroke: style(each.colour || colour), width: 1.7, dash: each.dash || dash,
          points: { show: points, size: 5, fill: style(each.colour || colour) }, value: (_, value) => shown(value), spanGaps: true,
        };
      }),
    ],
    cursor: { y: false },
    legend: { live: true },
  };
  const data = [xValues ? x.map((_, i) => i) : x, ...series.map((each) => each.values)];
  const plot = new uPlot(options, data, place);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `${title}: ${series.map((each) => each.label).join(", ")}`);
  for (const legend of place.querySelectorAll(".u-legend")) legend.setAttribute("role", "presentation");
  const watch = new ResizeObserver(() => {
    const width = Math.max(200, Math.floor(place.clientWidth));
    if (width !== plot.width) plot.setSize({ width, height });
  });
  watch.observe(place);
  plots.add({ place, end: () => { watch.disconnect(); plot.destroy(); } });
  return figure;
}
