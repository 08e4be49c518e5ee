"use strict";
// The address holds all that a reader has chosen, so that a link shows what its sender saw. Nothing is kept elsewhere.

const VIEWS = { leaderboard: "Leaderboard", tradeoff: "Trade-off", compare: "Compare", sweeps: "Sweeps", papers: "Papers" };
const SHARED = ["board", "setting"]; // what views have in common

function readAddress() {
  const [view, query] = location.hash.slice(1).split("?");
  const known = view in VIEWS || view === "cell" ? view : "leaderboard";
  return { view: known, ...Object.fromEntries(new URLSearchParams(query || "")) };
}

function addressOf(state) {
  const { view, ...rest } = state;
  const pairs = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(pairs).toString();
  return `#${view}${query ? "?" + query : ""}`;
}

function shared(state, view, more) {
  const kept = Object.fromEntries(SHARED.filter((name) => state[name]).map((name) => [name, state[name]]));
  return addressOf({ ...kept, view, ...more });
}

function go(changes, quietly) {
  // quietly: typing in a field leaves no trail of steps behind
  const address = addressOf({ ...readAddress(), ...changes });
  if (address === location.hash) return;
  if (quietly) {
    history.replaceState(null, "", address);
    show();
  } else {
    location.hash = address;
  }
}
