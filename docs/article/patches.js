"use strict";
// Five patches of the cat and their unknown places: one network learns the image and the places at once.

const PATCH = 32;

// Derivatives of the features of encodePoints by the coordinate that each is a function of.
function encodedSlopes(features, bands) {
  const slopes = new Float32Array(features.length);
  for (let i = 0; i < features.length; i += 2) {
    const frequency = 2 ** ((i / 2) % bands) * Math.PI; // sin' = f cos, cos' = -f sin.
    slopes[i] = frequency * features[i + 1];
    slopes[i + 1] = -frequency * features[i];
  }
  return slopes;
}

// Weight of band k of BARF when `open` bands are open.
function easedWeight(k, open) {
  return (1 - Math.cos(Math.PI * Math.min(Math.max(open - k, 0), 1))) / 2;
}

// True places of the patches, right and down in pixels from the middle: the first is there, the others
// lie in the four directions, about `far` pixels off along both axes.
function placesOf(far) {
  return [0, 0, -1, -0.8, 0.8, -1, -0.9, 1, 1, 0.9].map((part) => Math.round(part * far));
}

// A fit of patches by `bands` (0: raw coordinates), all at once or eased in, to patches that lie `far` pixels off.
class PatchFit {
  constructor({ bands = 0, isEased = false, far = 8 }, cat) {
    Object.assign(this, { bands, isEased, random: seeded(1), image: cat, truth: placesOf(far) });
    // As they are believed: all in the middle.
    Object.assign(this, { places: this.truth.map(() => 0), mean: this.truth.map(() => 0), square: this.truth.map(() => 0) });
    this.network = new Network([bands ? 4 * bands : 2, 64, 64, 3], null, seeded(2));
  }

  // Weight of each band: eased in, the first is open all along and the last at 70% of the steps.
  weights() {
    const reached = this.bands * Math.min((this.network.step / PatchFit.MOST - 0.1) / 0.6, 1);
    const open = this.isEased ? Math.max(reached, 1) : this.bands;
    return Array.from({ length: this.bands }, (_, k) => easedWeight(k, open));
  }

  encode(points) {
    const { features, width } = encodePoints(points, this.bands);
    if (!this.bands) return { features, width, slopes: new Float32Array(features.length).fill(1) };
    const slopes = encodedSlopes(features, this.bands), weights = this.weights();
    for (let i = 0; i < features.length; i++) {
      const weight = weights[Math.floor(i / 2) % this.bands]; // Of a sine and a cosine.
      features[i] *= weight;
      slopes[i] *= weight;
    }
    return { features, width, slopes };
  }

  advance(milliseconds) {
    const end = performance.now() + milliseconds;
    do this.train(); while (performance.now() < end && this.network.step < PatchFit.MOST);
  }

  // A step on random pixels of all patches in turn, for the network and for the places.
  train(batch = 160) {
    const count = this.truth.length / 2, first = (SIDE - PATCH) / 2, points = [], targets = new Float32Array(3 * batch);
    for (let row = 0; row < batch; row++) {
      const patch = 2 * (row % count), column = first + Math.floor(this.random() * PATCH), line = first + Math.floor(this.random() * PATCH);
      const pixel = 3 * ((line + this.truth[patch + 1]) * SIDE + column + this.truth[patch]); // What the camera saw, wherever it was.
      targets.set(this.image.subarray(pixel, pixel + 3), 3 * row);
      points.push([2 * (column + this.places[patch] + 0.5) / SIDE - 1, 2 * (line + this.places[patch + 1] + 0.5) / SIDE - 1]);
    }
    const progress = this.network.step / PatchFit.MOST, fade = 0.5 * (1 + Math.cos(Math.PI * Math.max(0, (progress - 0.7) / 0.3)));
    const { features, width, slopes } = this.encode(points);
    this.network.train(features, targets, batch, 0.005 * fade, true);
    const gradient = this.places.map(() => 0);
    for (let row = 0; row < batch; row++) for (let i = 0; i < width; i++) {
      const place = 2 * (row % count) + Math.floor(2 * i / width); // The first half of the features is that of x.
      gradient[place] += this.network.inputGradient[row * width + i] * slopes[row * width + i];
    }
    gradient.fill(0, 0, 2); // The first patch stays.
    adam(this.places, gradient, this.mean, this.square, this.network.step, 0.03 * fade);
  }

  // The image as far as its bands are open, the places, and the mean distance of the four from the true ones, in pixels.
  render() {
    const image = this.network.forward(this.encode(pixelCenters()).features, SIDE * SIDE);
    const off = this.truth.map((to, i) => to - this.places[i]);
    let error = 0;
    for (let i = 2; i < off.length; i += 2) error += Math.hypot(off[i], off[i + 1]) / (off.length / 2 - 1);
    return { image, side: SIDE, places: this.places, error };
  }
}

PatchFit.MOST = 1200; // Steps of the fit.
