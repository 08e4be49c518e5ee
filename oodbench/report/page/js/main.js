"use strict";
// From the address to what is shown.

let index = null;
let printing = null; // what makes all rows of a long table, for paper
let turn = 0; // of two views that are asked for at once, the last is shown

const RENDER = { leaderboard, tradeoff, compare, sweeps, papers, cell };

const currentBoard = (state) => index.boards.find((each) => each.id === state.board) || index.boards[0];

function navigation(state) {
  const has = {
    tradeoff: index.boards.some((each) => each.front), compare: index.boards.some((each) => each.methods > 1),
    sweeps: index.boards.some((each) => each.sweeps), papers: index.papers > 0,
  };
  const shown = Object.entries(VIEWS).filter(([view]) => has[view] !== false || view === state.view);
  document.getElementById("views").replaceChildren(...shown.map(([view, name]) =>
    h("a", { href: shared(state, view, view === "compare" && state.a ? { a: state.a, b: state.b } : {}), "aria-current": view === state.view ? "page" : null }, name)));
}

async function show() {
  const state = readAddress(), own = ++turn, main = document.getElementById("main");
  let content;
  printing = null;
  try {
    content = await RENDER[state.view](state);
  } catch (error) {
    content = [h("h1", null, "This view cannot be shown"), h("p", { class: "failed" }, String(error.message || error))];
    console.error(error);
  }
  if (own !== turn) return;
  const focused = document.activeElement, path = pathTo(focused), caret = focused?.type === "search" ? focused.selectionStart : null;
  const sameView = main.dataset.view === state.view, scroll = sameView ? scrollOf(main) : null;
  const opened = sameView ? [...main.querySelectorAll("details[open] > summary")].map((each) => each.textContent) : [];
  const stale = [...plots].filter((each) => main.contains(each.place));
  main.replaceChildren(...content.flat(4).filter((each) => each !== null && each !== undefined && each !== false));
  for (const summary of main.querySelectorAll("details > summary")) if (opened.includes(summary.textContent)) summary.parentElement.open = true;
  for (const each of stale) { each.end(); plots.delete(each); }
  main.dataset.view = state.view;
  fitTables();
  if (scroll) restore(main, scroll); else window.scrollTo(0, 0);
  if (sameView && path) refocus(path, caret);
  else if (main.dataset.ready) main.focus({ preventScroll: true });
  main.dataset.ready = "1";
  navigation(state);
  document.title = [main.querySelector("h1")?.firstChild?.textContent, index.title].filter(Boolean).join(" · ");
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

function fitTables() {
  // A table that is no wider than the page scrolls with it, under its own heads.
  for (const each of document.querySelectorAll(".scroll:not(.long)")) {
    each.classList.toggle("fits", each.firstElementChild.offsetWidth <= document.getElementById("main").clientWidth);
  }
}

const scrollOf = (main) => [...main.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, 0]);
const restore = (main, places) => main.querySelectorAll(".scroll").forEach((each, i) => { if (places[i]) each.scrollLeft = places[i][0]; });

function pathTo(element) {
  // Where the focus is, as places among siblings: the same place has it after a view is drawn again.
  const main = document.getElementById("main"), path = [];
  if (!main.contains(element) || element === main) return null;
  for (let each = element; each !== main; each = each.parentElement) path.unshift([each.tagName, [...each.parentElement.children].filter((other) => other.tagName === each.tagName).indexOf(each)]);
  return path;
}

function refocus(path, caret) {
  let element = document.getElementById("main");
  for (const [tag, i] of path) element = element && [...element.children].filter((each) => each.tagName === tag)[i];
  if (!element) return;
  element.focus({ preventScroll: true });
  if (caret !== null && element.type === "search") element.setSelectionRange(caret, caret);
}

function footer() {
  const skipped = index.skipped ? ` ${many(index.skipped, "file")} could not be read and ${index.skipped === 1 ? "is" : "are"} left out.` : "";
  document.getElementById("foot").append(
    h("p", null, `${many(index.results, "result")} on ${many(index.boards.length, "board")}, made by oodbench ${index.version}.${skipped}`),
    index.selection ? h("p", null, `Model selection where domains are held out: ${index.selection.rule}, ${index.selection.means}.`) : "");
}

async function start() {
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); document.getElementById("main").focus(); });
  try {
    index = await chunk("index");
  } catch (error) {
    document.getElementById("waiting").textContent = `The results cannot be read: ${error.message}. The page needs a browser from 2023 or later.`;
    return;
  }
  chunks.files = index.files;
  footer();
  addEventListener("hashchange", show);
  addEventListener("beforeprint", () => printing?.(true));
  addEventListener("afterprint", () => printing?.(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  let width = innerWidth;
  addEventListener("resize", fitTables);
  addEventListener("resize", () => { if (readAddress().view === "tradeoff" && Math.abs(innerWidth - width) > 40) { width = innerWidth; show(); } });
  await show();
}

start();
