"use strict";
// Fills in the numbers of the text and starts the figures.

// The cat of 64 x 64 pixels that the page carries, as RGB in [0, 1].
function catPixels() {
  const bytes = atob(document.getElementById("cat").textContent.trim());
  return Float32Array.from(bytes, (character) => character.charCodeAt(0) / 255);
}

for (const span of document.querySelectorAll("[data-value]")) span.textContent = VALUES[span.dataset.value]();
// These need what comes at the end of the page.
const LATE = ["reader", "zone"];
for (const figure of document.querySelectorAll("figure[data-figure]")) {
  const start = () => FIGURES[figure.dataset.figure](figure);
  if (LATE.includes(figure.dataset.figure)) addEventListener("load", start); else start();
  // A link to the figure itself, to be copied.
  figure.id = `figure-${figure.dataset.figure}`;
  const anchor = document.createElement("a");
  Object.assign(anchor, { href: `#${figure.id}`, className: "anchor", textContent: "#", title: "link to this figure" });
  anchor.setAttribute("aria-label", "link to this figure");
  figure.querySelector("figcaption")?.append(" ", anchor);
  if (figure.dataset.command) {
    const line = document.createElement("p"), code = document.createElement("code"), button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: "copy" });
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", () => navigator.clipboard.writeText(figure.dataset.command).then(() => { button.textContent = "copied"; }));
    code.textContent = figure.dataset.command;
    line.className = "copy";
    line.append(button, " ", code);
    figure.append(line);
  }
}
// Figures have their ids only now.
if (location.hash) document.querySelector(location.hash)?.scrollIntoView();
