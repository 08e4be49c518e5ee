"use strict";
// Data comes in chunks: compressed JSON, inside the page or in files beside it. A page from a disk may not fetch, but it
// may load scripts, and each file is a script that hands over its chunk.

const chunks = { waiting: new Map(), known: new Map(), files: {}, order: [] };
const CHUNKS_KEPT = 40; // of cells, in memory

function oodbenchChunk(name, text) {
  chunks.waiting.get(name)?.(text);
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function loaded(name) {
  const inside = document.getElementById(`chunk-${name}`);
  if (inside) return Promise.resolve(inside.textContent);
  if (!chunks.files[name]) return Promise.reject(new Error(`the page has no data called ${name}`));
  return new Promise((resolve, reject) => {
    const script = h("script", { src: chunks.files[name] });
    const done = () => { chunks.waiting.delete(name); script.remove(); };
    chunks.waiting.set(name, (text) => { done(); resolve(text); });
    script.onerror = () => { done(); reject(new Error(`${chunks.files[name]} is missing; make the page again`)); };
    document.head.append(script);
  });
}

function chunk(name) {
  if (!chunks.known.has(name)) {
    const coming = loaded(name).then(unpacked);
    coming.catch(() => chunks.known.delete(name));
    chunks.known.set(name, coming);
    if (name.startsWith("cells-")) chunks.order.push(name);
    if (chunks.order.length > CHUNKS_KEPT) chunks.known.delete(chunks.order.shift());
  }
  return chunks.known.get(name);
}
