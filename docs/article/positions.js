"use strict";
// Figures about positions in a sequence.

const FIGURES = {};

// Binary digits of a position above the clocks of its sinusoids.
FIGURES.clocks = (figure) => {
  const canvas = figure.querySelector("canvas");
  controls(figure, ({ position, base }) => {
    const { g, width, height } = context(canvas), pairs = 6, size = width / pairs, radius = Math.min(size * 0.36, 44);
    for (let k = 0; k < pairs; k++) {
      const x = (k + 0.5) * size, y = height - radius - 26, angle = position * base ** (-k / pairs);
      // A digit flips every 2^k positions; a hand turns once in 2 pi base^(k / pairs).
      const digit = (position >> k) & 1;
      g.fillStyle = digit ? css("--encoded") : css("--line");
      g.fillRect(x - 14, 8, 28, 28);
      g.fillStyle = digit ? css("--page") : css("--text");
      g.textAlign = "center";
      g.fillText(digit, x, 27);
      g.strokeStyle = css("--soft");
      g.beginPath(); g.arc(x, y, radius, 0, 7); g.stroke();
      g.strokeStyle = css("--encoded");
      g.lineWidth = 3;
      g.beginPath(); g.moveTo(x, y); g.lineTo(x + radius * Math.sin(angle), y - radius * Math.cos(angle)); g.stroke();
      g.lineWidth = 1;
      g.fillStyle = css("--soft");
      g.fillText(`turns in ${(2 * Math.PI * base ** (k / pairs)).toFixed(k < 2 ? 1 : 0)}`, x, height - 6);
    }
  });
};

FIGURES.heat = (figure) => {
  const canvas = figure.querySelector("canvas");
  controls(figure, ({ base }) => {
    heatMap(canvas, Array.from({ length: 64 }, (_, t) => sinusoidal(t, 128, 10 ** base)));
  });
};

// The requirements of each scheme, as docs/naive.py has measured them.
FIGURES.requirements = (figure) => {
  const [names, ...rows] = JSON.parse(document.getElementById("measured-requirements").textContent);
  const row = (cells, tag) => `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join("")}</tr>`;
  figure.querySelector("table").innerHTML = row(names, "th")
    + rows.map(([scheme, ...found]) => row([`<b>${scheme}</b>`, ...found.map((met) => met === "no" ? "<em>no</em>" : met)], "td")).join("");
};

// Hands before and after a shift, and the matrix that moves them.
FIGURES.shift = (figure) => {
  const canvas = figure.querySelector("canvas"), text = figure.querySelector("pre");
  controls(figure, ({ position, offset }) => {
    const width = 8, base = 100, start = sinusoidal(position, width, base), end = sinusoidal(position + offset, width, base);
    const { g, width: across, height } = context(canvas), size = across / 4, radius = Math.min(size * 0.36, height / 2 - 16);
    for (let k = 0; k < 4; k++) {
      const x = (k + 0.5) * size, y = height / 2;
      g.strokeStyle = css("--soft");
      g.beginPath(); g.arc(x, y, radius, 0, 7); g.stroke();
      [[start, "--none"], [end, "--encoded"]].forEach(([embedding, color]) => {
        g.strokeStyle = css(color);
        g.lineWidth = 3;
        g.beginPath(); g.moveTo(x, y); g.lineTo(x + radius * embedding[2 * k], y - radius * embedding[2 * k + 1]); g.stroke();
        g.lineWidth = 1;
      });
    }
    const shown = (value) => value.toFixed(3).padStart(7), c = shown(Math.cos(offset)), s = shown(Math.sin(offset));
    const error = distance(shifted(start, offset, base), end);
    text.textContent = `first pair: | ${c} ${s} |\n            | ${shown(-Math.sin(offset))} ${c} |   whatever the position is\n`
      + `|T(${offset}) p(${position}) - p(${position + offset})| = ${error.toExponential(1)}`;
  });
};

// A head made by hand that attends two positions back.
FIGURES.attention = (figure) => {
  const canvas = figure.querySelector("canvas"), text = figure.querySelector("p.value");
  controls(figure, ({ position, scale }) => {
    const weights = attention(position, 50, { scale: 2 ** scale });
    lineChart(canvas, [{ values: weights.map((w, t) => [t, w]), color: css("--encoded") }],
      { x: [0, 49], y: [0, 1], xLabel: "position of the key", marks: [position - 2] });
    text.textContent = `weight of position ${position - 2}: ${weights[position - 2].toFixed(2)}`;
  });
};

FIGURES.similarity = (figure) => {
  const canvas = figure.querySelector("canvas");
  controls(figure, ({ width, base }) => {
    const half = Array.from({ length: 501 }, (_, k) => [k, similarity(k, 2 ** width, 10 ** base)]);
    const values = [...half.slice(1).reverse().map(([k, value]) => [-k, value]), ...half];
    const bump = firstBump(2 ** width, 10 ** base);
    lineChart(canvas, [{ values }], { x: [-500, 500], y: [-0.2, 1], xLabel: "offset", marks: bump ? [bump] : [] });
  });
};

// Measured: docs/results.md, Sequences.
FIGURES.lengths = (figure) => {
  const measured = {
    sinusoidal: [1.84, 3.48, 4.48, 5.04], learned: [1.96, 3.4, 4.2, 4.63],
    rotary: [1.75, 1.89, 2.89, 4.14], alibi: [1.9, 1.89, 1.88, 1.89], none: [2.91, 3, 3.13, 3.22],
  };
  const series = () => Object.entries(measured).map(([label, bits]) => ({ label, color: css(ENCODING_COLORS[label]), values: bits.map((b, i) => [7 + i, b]) }));
  const draw = () => lineChart(figure.querySelector("canvas"), series(), { x: [7, 10], y: [1, 6], xLabel: "log2 of the length; trained at 7" });
  window.addEventListener("resize", draw);
  draw();
};

// Four language models read a text: their losses, guesses and attention at a position.
FIGURES.reader = (figure) => {
  const [chart, attention] = figure.querySelectorAll("canvas"), passage = figure.querySelector("pre"), table = figure.querySelector("table");
  const saved = JSON.parse(document.getElementById("models").textContent), read = [];
  const escaped = (text) => text.replace(/[&<]/g, (character) => ({ "&": "&amp;", "<": "&lt;" })[character]);
  const shown = (character) => ({ "\n": "↵", " ": "␣" })[character] || escaped(character ?? "?");
  const symbols = symbolsOf(saved.windows[0], saved.alphabet), length = symbols.length - 1;
  const later = controls(figure, ({ position }) => {
    const color = (encoding) => css(ENCODING_COLORS[encoding]), back = 48;
    lineChart(chart, read.map(({ encoding, bits }) => ({ label: encoding, color: color(encoding), values: smoothed(bits) })),
      { x: [0, length], y: [1, 8], xLabel: "position; bits per character", marks: [saved.context, position] });
    const text = [...saved.windows[0]], next = text[position + 1];
    passage.innerHTML = `${escaped(text.slice(Math.max(0, position - 90), position + 1).join(""))}<b>${shown(next)}</b>`;
    table.innerHTML = `<tr><th></th><th>expects</th><th>probability of ${shown(next)}</th><th>attention to the last ${back}</th></tr>` + read.map(({ encoding, probabilities, attention: weights }) => {
      const here = probabilities.subarray(position * (saved.alphabet.length + 2), (position + 1) * (saved.alphabet.length + 2));
      const likely = here.indexOf(Math.max(...here)), row = weights.subarray(position * length, position * length + position + 1);
      const near = row.slice(-back).reduce((a, b) => a + b, 0);
      return `<tr><td>${encoding}</td><td>${shown(saved.alphabet[likely])} (${here[likely].toFixed(2)})</td><td>${here[symbols[position + 1]].toFixed(2)}</td><td>${near.toFixed(2)}</td></tr>`;
    }).join("") + (read.length < Object.keys(saved.weights).length ? "<tr><td colspan=4>the models are reading the text …</td></tr>" : "");
    lineChart(attention, read.map((model) => ({
      label: model.encoding, color: color(model.encoding),
      values: Array.from({ length: Math.min(back, position + 1) }, (_, d) => [d, model.attention[position * length + position - d]]),
    })), { x: [0, back], y: [0, 0.6], xLabel: "characters back; attention", legend: "right" });
  });
  // Means over 16 positions.
  const smoothed = (bits) => Array.from({ length: length / 16 }, (_, i) => [16 * i + 8, bits.subarray(16 * i, 16 * i + 16).reduce((a, b) => a + b) / 16]);
  const run = `onmessage = ({ data: saved }) => {
    for (const model of languageModels(saved)) postMessage(readWindows(model, saved));
  }`;
  new IntersectionObserver(([entry], observer) => {
    if (!entry.isIntersecting) return;
    observer.disconnect();
    pureWorker(run, (model) => { read.push(model); later(); }).postMessage(saved);
  }).observe(figure);
};

FIGURES.claims = (figure) => {
  figure.querySelector("table").innerHTML = "<tr><th>what is said</th><th></th><th>what is computed</th></tr>" + CLAIMS.map(({ said, is, shown }) =>
    `<tr><td>${said}</td><td><strong class="${is}">${is ? "true" : "false"}</strong></td><td>${shown()}</td></tr>`).join("");
};
