"use strict";
// Elements are made of nodes and texts alone: no text of a result is ever read as HTML.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false && child !== "") element.append(child);
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const quiet = (text) => h("span", { class: "unseen" }, text); // for readers of the page, not for its lookers

function select(label, options, chosen, onchange) {
  // options: [value, text] or {group, options}
  const option = ([value, text]) => h("option", { value, selected: value === chosen }, text);
  const items = options.map((each) =>
    Array.isArray(each) ? option(each) : h("optgroup", { label: each.group }, each.options.map(option)),
  );
  return h("label", { class: "field" }, h("span", null, label),
    h("select", { onchange: (event) => onchange(event.target.value) }, items));
}

function toggle(label, on, onchange) {
  return h("label", { class: "check" },
    h("input", { type: "checkbox", checked: on, onchange: (event) => onchange(event.target.checked) }), label);
}

function hundredths(value, sign) {
  // Numbers come as whole hundredths of a percent, as tables print them.
  if (value === null || value === undefined) return "–";
  const text = (Math.abs(value) / 100).toFixed(2);
  if (value < 0) return "−" + text;
  return sign && value > 0 ? "+" + text : text;
}

function letters(i) {
  return (i >= 26 ? letters(Math.floor(i / 26) - 1) : "") + String.fromCharCode(97 + (i % 26));
}

const many = (count, word) => `${count.toLocaleString("en-US")} ${word}${count === 1 ? "" : "s"}`;

function copyable(text) {
  const said = h("span", { class: "quiet", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = h("textarea", { class: "unseen" }, text); // a page from a disk may have no clipboard
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    said.textContent = "copied";
  };
  return h("div", { class: "command" }, h("code", { tabindex: "0" }, text),
    h("button", { type: "button", onclick: copy }, "Copy"), said);
}
