"use strict";
// A causal Transformer over characters, with the weights that torch has trained: docs/make_article_models.py.

// Rows of x times the transposed weight, plus the bias if there is one.
function linear(x, weight, outputs, bias = null) {
  const inputs = weight.length / outputs, count = x.length / inputs, y = new Float32Array(count * outputs);
  for (let row = 0; row < count; row++) for (let o = 0; o < outputs; o++) {
    let sum = bias ? bias[o] : 0;
    for (let i = 0; i < inputs; i++) sum += weight[o * inputs + i] * x[row * inputs + i];
    y[row * outputs + o] = sum;
  }
  return y;
}

// Layer normalization of rows.
function normalized(x, scale, shift) {
  const width = scale.length, y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += width) {
    let mean = 0, square = 0;
    for (let i = 0; i < width; i++) mean += x[from + i] / width;
    for (let i = 0; i < width; i++) square += (x[from + i] - mean) ** 2 / width;
    for (let i = 0; i < width; i++) y[from + i] = (x[from + i] - mean) / Math.sqrt(square + 1e-5) * scale[i] + shift[i];
  }
  return y;
}

// In place: the softmax of the first `count` values.
function softmax(values, count = values.length) {
  let largest = -Infinity, total = 0;
  for (let i = 0; i < count; i++) largest = Math.max(largest, values[i]);
  for (let i = 0; i < count; i++) total += values[i] = Math.exp(values[i] - largest);
  for (let i = 0; i < count; i++) values[i] /= total;
}

class LanguageModel {
  // shapes: sizes of each tensor by name, in the order in which `values` has them.
  constructor(encoding, { heads, shapes }, values) {
    Object.assign(this, { encoding, heads, width: shapes["norm.weight"][0] });
    let from = 0;
    this.parts = Object.fromEntries(Object.entries(shapes).map(([name, sizes]) => [name, values.subarray(from, from += sizes.reduce((a, b) => a * b))]));
  }

  layer(name, x) {
    const bias = this.parts[`${name}.bias`];
    return linear(x, this.parts[`${name}.weight`], bias.length, bias);
  }

  norm(name, x) { return normalized(x, this.parts[`${name}.weight`], this.parts[`${name}.bias`]); }

  // Probabilities of all symbols after each symbol of a text; keeps the attention, averaged over the heads.
  forward(symbols) {
    const { width } = this, table = this.parts["embedding.weight"], x = new Float32Array(symbols.length * width);
    symbols.forEach((symbol, t) => {
      const position = this.encoding === "sinusoidal" ? sinusoidal(t, width) : null;
      for (let i = 0; i < width; i++) x[t * width + i] = table[symbol * width + i] * Math.sqrt(width) + (position ? position[i] : 0);
    });
    const add = (part) => part.forEach((value, i) => { x[i] += value; });
    add(this.attend(this.norm("layers.0.norms.0", x), symbols.length));
    const hidden = this.layer("layers.0.feed_forward.0", this.norm("layers.0.norms.1", x));
    add(this.layer("layers.0.feed_forward.2", hidden.map((value) => Math.max(value, 0))));
    const numSymbols = table.length / width, logits = linear(this.norm("norm", x), table, numSymbols);
    for (let t = 0; t < symbols.length; t++) softmax(logits.subarray(t * numSymbols, (t + 1) * numSymbols));
    return logits;
  }

  // Rotary positions: pair i of a head's columns is rotated by the position times 10000^(-2 i / columns).
  rotate(x, stride, size) {
    for (let at = 0; at < x.length; at += 2) {
      const column = at % stride;
      if (column >= this.width) continue; // Values are not rotated.
      const angle = Math.floor(at / stride) * 10000 ** (-(column % size) / size), c = Math.cos(angle), s = Math.sin(angle);
      [x[at], x[at + 1]] = [x[at] * c - x[at + 1] * s, x[at] * s + x[at + 1] * c];
    }
  }

  attend(x, length) {
    const { width, heads } = this, size = width / heads, mixed = new Float32Array(length * width);
    const queries = this.layer("layers.0.attention.queries", x), others = this.layer("layers.0.attention.keys_values", x);
    if (this.encoding === "rotary") { this.rotate(queries, width, size); this.rotate(others, 2 * width, size); }
    this.attention = new Float32Array(length * length);
    const weights = new Float32Array(length);
    for (let head = 0; head < heads; head++) for (let t = 0; t < length; t++) {
      const first = head * size, slope = this.encoding === "alibi" ? 2 ** (-8 * (head + 1) / heads) : 0;
      for (let s = 0; s <= t; s++) { // It sees itself and what came before.
        let score = 0;
        for (let i = first; i < first + size; i++) score += queries[t * width + i] * others[2 * s * width + i];
        weights[s] = score / Math.sqrt(size) - slope * (t - s);
      }
      softmax(weights, t + 1);
      for (let s = 0; s <= t; s++) {
        this.attention[t * length + s] += weights[s] / heads;
        for (let i = first; i < first + size; i++) mixed[t * width + i] += weights[s] * others[(2 * s + 1) * width + i];
      }
    }
    return this.layer("layers.0.attention.output", mixed);
  }
}

// Models by their encodings, from what docs/make_article_models.py wrote.
function languageModels(saved) {
  return Object.entries(saved.weights).map(([encoding, base64]) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    return new LanguageModel(encoding, saved, new Float32Array(bytes.buffer));
  });
}

// Numbers of the characters of a text; one that the models have not seen is the last but one symbol.
function symbolsOf(text, alphabet) {
  return [...text].map((character) => (alphabet.includes(character) ? alphabet.indexOf(character) : alphabet.length));
}

// A model on all windows: bits by position in the mean, and of the first window what it expected and attended to.
function readWindows(model, { windows, alphabet }) {
  const bits = new Float32Array(windows[0].length - 1), first = {};
  windows.forEach((text, window) => {
    const symbols = symbolsOf(text, alphabet), probabilities = model.forward(symbols.slice(0, -1));
    for (let t = 0; t < bits.length; t++) bits[t] -= Math.log2(probabilities[t * (alphabet.length + 2) + symbols[t + 1]]) / windows.length;
    if (!window) Object.assign(first, { probabilities, attention: model.attention });
  });
  return { encoding: model.encoding, bits, ...first };
}
