"use strict";
// The encodings of the article, as formulas: what its figures draw and what its claims are checked with.

// Positional encoding of one coordinate: sin and cos of 2^k pi x for k = 0 ... bands - 1.
function fourier(x, bands) {
  const features = [];
  for (let k = 0; k < bands; k++) features.push(Math.sin(2 ** k * Math.PI * x), Math.cos(2 ** k * Math.PI * x));
  return features;
}

// Frequencies drawn from a normal distribution of standard deviation sigma, by Box and Muller.
function normalFrequencies(sigma, count = 20) {
  const random = seeded(7);
  return Array.from({ length: count }, () => {
    const radius = sigma * Math.sqrt(-2 * Math.log(1 - random())), turn = 2 * Math.PI * random();
    return [radius * Math.cos(turn), radius * Math.sin(turn)];
  });
}

// Gaussian Fourier features of a point in [-1, 1]^2: sin and cos of pi b . (x, y) for each frequency b.
function gaussian([x, y], frequencies) {
  return frequencies.flatMap(([u, v]) => [Math.sin(Math.PI * (u * x + v * y)), Math.cos(Math.PI * (u * x + v * y))]);
}

// Features of points, row by row: raw (x, y), with bands those of x and then those of y, or with sigma Gaussian ones.
function encodePoints(points, bands, sigma = 0) {
  const frequencies = sigma ? normalFrequencies(sigma) : [];
  const encode = sigma ? (point) => gaussian(point, frequencies)
    : bands ? ([x, y]) => [...fourier(x, bands), ...fourier(y, bands)] : (point) => point;
  const rows = points.map(encode);
  return { width: rows[0].length, features: Float32Array.from(rows.flat()) };
}

// Similarity of two coordinates at a distance: the mean of cos(2^k pi d). It is 1 at 0 and at 2.
// Without bands the cosine of the angle between (0, 1) and (d, 1), where 1 is the input of the bias.
function kernel(distance, bands) {
  if (!bands) return 1 / Math.hypot(1, distance);
  let sum = 0;
  for (let k = 0; k < bands; k++) sum += Math.cos(2 ** k * Math.PI * distance);
  return sum / bands;
}

// Sinusoidal embedding of a position: pairs of sine and cosine, wavelengths 2 pi ... base * 2 pi.
function sinusoidal(position, width = 64, base = 10000) {
  const embedding = [];
  for (let i = 0; i < width; i += 2) {
    const angle = position * base ** (-i / width);
    embedding.push(Math.sin(angle), Math.cos(angle));
  }
  return embedding;
}

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const distance = (a, b) => Math.sqrt(a.reduce((sum, value, i) => sum + (value - b[i]) ** 2, 0));

// Embedding moved by an offset: each pair rotated by its own angle, whatever the position.
function shifted(embedding, offset, base = 10000) {
  const moved = [];
  for (let i = 0; i < embedding.length; i += 2) {
    const angle = offset * base ** (-i / embedding.length), c = Math.cos(angle), s = Math.sin(angle);
    moved.push(embedding[i] * c + embedding[i + 1] * s, embedding[i + 1] * c - embedding[i] * s);
  }
  return moved;
}

// Attention of a head made by hand, W_Q = T(-2) at a scale: the weights of all keys for one query.
function attention(position, length, { width = 64, offset = -2, scale = 1 } = {}) {
  const query = shifted(sinusoidal(position, width), offset);
  const scores = Array.from({ length }, (_, t) => scale * dot(query, sinusoidal(t, width)) / Math.sqrt(width));
  const largest = Math.max(...scores), exps = scores.map((score) => Math.exp(score - largest));
  const total = exps.reduce((sum, value) => sum + value, 0);
  return exps.map((value) => value / total);
}

// Similarity of positions that lie `offset` apart, 1 at 0; it depends on nothing else.
function similarity(offset, width = 128, base = 10000) {
  let sum = 0; // sin a sin b + cos a cos b = cos(a - b) for each pair.
  for (let i = 0; i < width; i += 2) sum += Math.cos(offset * base ** (-i / width));
  return sum / (width / 2);
}

// The first offset at which the similarity rises again.
function firstBump(width = 128, base = 10000) {
  for (let k = 1; k < 1000; k++) if (similarity(k + 1, width, base) > similarity(k, width, base)) return k;
  return null;
}

// Volume rendering along a ray through colored discs in the plane: NeRF with one dimension less.
const DISCS = [
  { x: -0.35, y: 0.1, radius: 0.28, color: [0.84, 0.37, 0], density: 14 },
  { x: 0.4, y: -0.25, radius: 0.22, color: [0, 0.45, 0.7], density: 14 },
  { x: 0.25, y: 0.45, radius: 0.16, color: [0, 0.62, 0.45], density: 3 },
];

function renderRay(origin, direction, { near = 0.4, far = 2.8, samples = 120 } = {}) {
  const length = (far - near) / samples, weights = [], color = [0, 0, 0], distances = [];
  let transmittance = 1;
  for (let i = 0; i < samples; i++) {
    const t = near + (i + 0.5) * length, x = origin[0] + t * direction[0], y = origin[1] + t * direction[1];
    const disc = DISCS.find((d) => (x - d.x) ** 2 + (y - d.y) ** 2 < d.radius ** 2);
    const alpha = 1 - Math.exp(-(disc ? disc.density : 0) * length), weight = transmittance * alpha;
    if (disc) for (let c = 0; c < 3; c++) color[c] += weight * disc.color[c];
    weights.push(weight);
    distances.push(t);
    transmittance *= 1 - alpha;
  }
  return { color: color.map((value) => value + transmittance), weights, distances, transmittance };
}

// Energy of each frequency of a signal, from 1 cycle on.
function frequencyEnergies(signal) {
  const n = signal.length;
  return Array.from({ length: n / 2 }, (_, at) => {
    let re = 0, im = 0;
    for (let i = 0; i < n; i++) {
      const angle = 2 * Math.PI * (at + 1) * i / n;
      re += signal[i] * Math.cos(angle);
      im -= signal[i] * Math.sin(angle);
    }
    return (re * re + im * im) / (n * n);
  });
}

// Mean squared error of a shifted signal against itself, with bands up to a number: what alignment descends.
function alignmentLoss(energies, shift, bands) {
  const angle = Math.PI * shift / energies.length;
  let loss = 0;
  // A shift by s multiplies coefficient k by exp(-2 pi i k s / n); the difference has this energy.
  for (let k = 1; k <= bands; k++) loss += 4 * energies[k - 1] * (1 - Math.cos(k * angle));
  return loss;
}

// Bands that are open at a progress from 0 to 1: one for a third of the way, then more and more.
function easedBands(progress, most) {
  return progress < 1 / 3 ? 1 : 1 + Math.floor((1.5 * progress - 0.5) * most);
}

// Shift at which gradient descent ends, with as many bands as are open at each step.
function descend(energies, start, bandsAt, steps = 400) {
  let at = start;
  for (let step = 0; step < steps; step++) {
    const bands = bandsAt(step / steps);
    const slope = alignmentLoss(energies, at + 0.05, bands) - alignmentLoss(energies, at - 0.05, bands);
    at -= Math.sign(slope) * Math.min(Math.abs(slope) * 4000, 0.3);
  }
  return at;
}

// Share of sums of a word and a position from which the position is read again, by the largest dot product.
function recovered(width = 128, length = 64, trials = 400) {
  const random = seeded(3), table = Array.from({ length }, (_, t) => sinusoidal(t, width));
  let right = 0;
  for (let trial = 0; trial < trials; trial++) {
    const position = Math.floor(random() * length);
    // A random word of the same norm as the position's embedding.
    const word = Array.from({ length: width }, () => random() + random() + random() - 1.5);
    const scale = Math.sqrt(width / 2 / dot(word, word));
    const sum = table[position].map((value, i) => value + scale * word[i]);
    const scores = table.map((code) => dot(code, sum));
    right += scores.indexOf(Math.max(...scores)) === position;
  }
  return right / trials;
}
