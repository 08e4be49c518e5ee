"use strict";
// Tables of papers with our numbers in them, as `oodbench table --layout` and `oodbench check` have them.

const VERDICTS = { agrees: "agrees", differs: "differs", "cannot tell": "cannot tell", suspect: "suspect", missing: "missing" };

async function papers(state) {
  const { tables, left_out: leftOut } = await chunk("papers");
  const byBoard = Object.fromEntries(index.boards.map((each) => [each.id, each]));
  return [h("h1", null, "Papers"),
    h("p", { class: "about" }, "These are the tables of papers with our numbers, the reported numbers below them, and a verdict. The verdict is “agrees” or “differs” where the results show it beyond chance, and “cannot tell” where they do not. Only runs at full size are compared with a paper."),
    tables.length ? tables.map((table) => paperTable(table, byBoard[table.board])) : h("p", { class: "said" }, "None of these results is in a paper's table."),
    leftOut.length ? h("details", { class: "facts" }, h("summary", null, `Not compared with a paper: ${many(leftOut.length, "board")}`),
      h("ul", null, leftOut.map((each) => h("li", null, h("a", { href: addressOf({ view: "leaderboard", board: each.board }) }, each.title), `: ${each.why}`)))) : null];
}

function paperTable(table, listed) {
  const notes = new Map(), width = table.heads.length + table.settings.length * table.metrics.length;
  const letter = (note) => { if (!notes.has(note)) notes.set(note, letters(notes.size)); return notes.get(note); };
  const sup = (some) => h("sup", { title: some.join("; ") }, some.map(letter).join(","));
  const entry = ([text, error, note, best]) => [h("span", { class: best ? "best" : null }, text, best ? quiet(" best") : null), error ? h("span", { class: "margin" }, ` ± ${error}`) : null, note ? sup([note]) : null];
  const rows = [];
  let last = "";
  for (const row of table.rows) {
    if (row.group && row.group !== last) rows.push(h("tr", { class: "group" }, h("th", { colspan: width, scope: "rowgroup" }, row.group)));
    last = row.group;
    row.lines.forEach((line, i) => {
      rows.push(h("tr", { class: line.measured ? "measured" : "below" }, line.heads.map((head, j) => h(line.measured ? "th" : "td", line.measured ? { scope: "row", class: "name" } : { class: "name" }, head, line.notes && j === line.heads.length - 1 ? sup(line.notes) : null)),
        line.entries.map((each) => h("td", { class: "number" }, each.length ? entry(each) : ""))));
    });
    if (row.verdicts) {
      rows.push(h("tr", { class: "below verdicts" }, h("td", { colspan: table.heads.length, class: "name" }, "verdict"), row.verdicts.map(([status, text]) =>
        h("td", { class: "number" }, status === "missing" ? "" : h("span", { class: `verdict ${status.replace(" ", "-")}`, title: text }, VERDICTS[status])))));
    }
  }
  return h("section", null, h("h2", null, table.title, h("small", null, listed.title === table.title ? "" : listed.title)), h("p", { class: "about" }, table.caption),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title }, h("table", { class: "board paper" },
      h("caption", { class: "unseen" }, table.title),
      h("thead", null,
        h("tr", null, h("td", { colspan: table.heads.length }), table.settings.map((setting) => h("th", { colspan: table.metrics.length, scope: "colgroup", class: "setting" }, setting))),
        h("tr", null, table.heads.map((head) => h("th", { scope: "col", class: "name" }, head)), table.settings.flatMap(() => table.metrics.map(([title, summary]) => h("th", { scope: "col", class: "number", title: summary }, title))))),
      h("tbody", null, rows))),
    table.verdict ? h("p", null, table.verdict) : h("p", { class: "said" }, "The reported numbers come from another setting, so they can be compared in direction only and there is no verdict."),
    table.missing ? h("p", { class: "quiet" }, `${many(table.missing, "row")} of the table ${table.missing === 1 ? "was" : "were"} not run.`) : null,
    notes.size ? h("dl", { class: "notes" }, [...notes].map(([note, mark]) => [h("dt", null, mark), h("dd", null, note)])) : null,
    sentencesBelow(table));
}
