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

// A fit of patches by `bands` (0: raw coordinates), all at once or eased in, to patches that lie `far` pixels off.
class PatchFit {
  constructor({ bands = 0, isEased = false, far = 8 }, cat) {
    Object.assign(this, { bands, isEased, random: seeded(1), image: cat });
    // The first patch is in the middle and stays there; the others lie in the four directions.
    this.truth = [[0, 0], [-1, -0.8], [0.8, -1], [-0.9, 1], [1, 0.9]].map((to) => to.map((part) => Math.round(part * far)));
    this.places = this.truth.map(() => [0, 0]); // Pixels, as they are believed: all in the middle.
    this.network = new Network([bands ? 4 * bands : 2, 64, 64, 3], null, seeded(2));
    this.means = this.places.map(() => [0, 0]);
    this.squares = this.places.map(() => [0, 0]);
  }

  // Weights of the features, sines and cosines alike, when they are eased in over the middle of the fit.
  weights() {
    const open = this.bands * Math.min(Math.max((this.network.step / PatchFit.MOST - 0.1) / 0.6, 0), 1);
    return Float32Array.from({ length: 4 * this.bands }, (_, i) => this.isEased ? easedWeight(Math.floor(i / 2) % this.bands, Math.max(open, 1)) : 1);
  }

  encode(points) {
    const { features, width } = encodePoints(points, this.bands);
    if (!this.bands) return { features, width, slopes: new Float32Array(features.length).fill(1) };
    const slopes = encodedSlopes(features, this.bands), weights = this.weights();
    for (let i = 0; i < features.length; i++) {
      features[i] *= weights[i % width];
      slopes[i] *= weights[i % width];
    }
    return { features, width, slopes };
  }

  advance(milliseconds) {
    const end = performance.now() + milliseconds;
    do this.train(); while (performance.now() < end && this.network.step < PatchFit.MOST);
  }

  train(batch = 160) {
    const points = [], owners = [], targets = new Float32Array(3 * batch), first = (SIDE - PATCH) / 2;
    for (let row = 0; row < batch; row++) {
      const owner = row % this.truth.length, [right, down] = this.truth[owner], [x, y] = this.places[owner];
      const column = first + Math.floor(this.random() * PATCH), line = first + Math.floor(this.random() * PATCH);
      const pixel = 3 * ((line + down) * SIDE + column + right); // What the camera saw, wherever it was.
      targets.set(this.image.subarray(pixel, pixel + 3), 3 * row);
      points.push([2 * (column + x + 0.5) / SIDE - 1, 2 * (line + y + 0.5) / SIDE - 1]);
      owners.push(owner);
    }
    const progress = this.network.step / PatchFit.MOST;
    const fade = 0.5 * (1 + Math.cos(Math.PI * Math.max(0, (progress - 0.7) / 0.3)));
    const { features, width, slopes } = this.encode(points);
    this.network.train(features, targets, batch, 0.005 * fade, true);
    const toFeatures = this.network.inputGradient;
    const gradients = this.places.map(() => [0, 0]);
    for (let row = 0; row < batch; row++) for (let i = 0; i < width; i++) {
      gradients[owners[row]][Math.floor(2 * i / width)] += toFeatures[row * width + i] * slopes[row * width + i];
    }
    this.move(gradients, 0.03 * fade);
  }

  // A step of Adam on the places.
  move(gradients, rate) {
    const first = 1 - 0.9 ** this.network.step, second = Math.sqrt(1 - 0.999 ** this.network.step);
    for (let patch = 1; patch < gradients.length; patch++) for (let axis = 0; axis < 2; axis++) {
      const g = gradients[patch][axis];
      this.means[patch][axis] = 0.9 * this.means[patch][axis] + 0.1 * g;
      this.squares[patch][axis] = 0.999 * this.squares[patch][axis] + 0.001 * g * g;
      this.places[patch][axis] -= rate / first * this.means[patch][axis] / (Math.sqrt(this.squares[patch][axis]) / second + 1e-12);
    }
  }

  // The image as far as its bands are open, where the patches are, and how far off in the mean, in pixels.
  render() {
    const image = this.network.forward(this.encode(pixelCenters()).features, SIDE * SIDE);
    const error = this.truth.slice(1).reduce((sum, to, i) => sum + distance(to, this.places[i + 1]) / 4, 0);
    return { image, side: SIDE, places: this.places, error };
  }
}

PatchFit.MOST = 1200; // Steps of the fit.
