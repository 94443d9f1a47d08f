"use strict";
// Drawing on canvases in the colors of the page, and the controls of figures.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Of an encoding of positions, the same in every figure.
const ENCODING_COLORS = { none: "--none", sinusoidal: "--encoded", rotary: "--third", alibi: "--fourth", learned: "--fifth" };
const COLORS = ["--none", "--encoded", "--third", "--fourth", "--fifth"];

// A canvas as sharp as the screen; returns its context with one unit per CSS pixel.
function context(canvas) {
  const width = canvas.clientWidth || 300, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const g = canvas.getContext("2d");
  g.scale(ratio, ratio);
  g.clearRect(0, 0, width, height);
  g.font = "12px system-ui, sans-serif";
  return { g, width, height };
}

// Round numbers of an axis, three to seven of them.
function ticks([low, high]) {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.99);
  const first = Math.ceil(low / step - 1e-9), count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => +((first + i) * step).toPrecision(6));
}

// Lines over a common range; series: [{values: [[x, y], ...], color, label}], labels at the left or the right.
function lineChart(canvas, series, { x, y, xLabel = "", marks = [], legend = "left" }) {
  const { g, width, height } = context(canvas), left = 40, right = 8, top = 8, bottom = 32;
  const toX = (v) => left + (v - x[0]) / (x[1] - x[0]) * (width - left - right);
  const toY = (v) => height - bottom - (v - y[0]) / (y[1] - y[0]) * (height - top - bottom);
  g.strokeStyle = css("--line");
  g.fillStyle = css("--soft");
  g.textAlign = "right";
  for (const v of ticks(y)) {
    g.beginPath(); g.moveTo(left, toY(v)); g.lineTo(width - right, toY(v)); g.stroke();
    g.fillText(v, left - 5, toY(v) + 4);
  }
  g.textAlign = "center";
  for (const v of ticks(x)) {
    g.fillText(v, Math.min(Math.max(toX(v), left), width - 16), height - bottom + 14);
  }
  g.fillText(xLabel, (left + width) / 2, height - 3);
  for (const at of marks) {
    g.setLineDash([3, 3]); g.beginPath(); g.moveTo(toX(at), top); g.lineTo(toX(at), height - bottom); g.stroke(); g.setLineDash([]);
  }
  series.forEach(({ values, color, label, dots }, i) => {
    g.strokeStyle = g.fillStyle = color || css(COLORS[i % COLORS.length]);
    g.lineWidth = 2;
    g.beginPath();
    values.forEach(([px, py], n) => {
      const [a, b] = [toX(px), toY(Math.min(Math.max(py, y[0]), y[1]))];
      if (dots) g.fillRect(a - 4, b - 4, 8, 8);
      else if (n) g.lineTo(a, b); else g.moveTo(a, b);
    });
    g.stroke();
    if (label) { g.textAlign = legend; g.fillText(label, legend === "left" ? left + 8 : width - right - 8, top + 12 + 15 * i); }
  });
  g.lineWidth = 1;
}

// Values in [-1, 1] as colors, row by row.
function heatMap(canvas, rows) {
  const { g, width, height } = context(canvas), image = document.createElement("canvas");
  image.width = rows[0].length;
  image.height = rows.length;
  const pixels = new ImageData(image.width, image.height);
  rows.flat().forEach((value, i) => {
    const strength = Math.min(Math.abs(value), 1), positive = value > 0;
    // White at 0, blue below and orange above.
    const target = positive ? [213, 94, 0] : [0, 114, 178];
    for (let c = 0; c < 3; c++) pixels.data[4 * i + c] = 255 + strength * (target[c] - 255);
    pixels.data[4 * i + 3] = 255;
  });
  image.getContext("2d").putImageData(pixels, 0, 0);
  g.imageSmoothingEnabled = false;
  g.drawImage(image, 0, 0, width, height);
}

// An RGB image of a square side in [0, 1], enlarged without smoothing.
function showImage(canvas, values, side) {
  const image = new ImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = 255 * Math.min(Math.max(values[3 * i + c], 0), 1);
    image.data[4 * i + 3] = 255;
  }
  canvas.width = canvas.height = side;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// Sliders of a figure: calls draw(values) with numbers by name, now and after each input.
function controls(figure, draw) {
  const sliders = [...figure.querySelectorAll("input[type=range]")];
  let asked = false;
  const update = () => {
    asked = false;
    const values = {};
    for (const slider of sliders) {
      values[slider.name] = +slider.value;
      const shown = slider.parentElement.querySelector("output");
      if (shown) shown.textContent = slider.dataset.power ? Math.round((+slider.dataset.power) ** slider.value) : slider.value;
    }
    draw(values);
  };
  const later = () => { if (!asked) { asked = true; requestAnimationFrame(update); } };
  for (const slider of sliders) slider.addEventListener("input", later);
  window.addEventListener("resize", later);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  update();
  return later;
}
