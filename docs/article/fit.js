"use strict";
// The fit of the cat that runs in a worker: random pixels, Adam, and an image now and then.

const SIDE = 64;

// Pixel centers of the cat, row by row, x to the right and y down, in [-1, 1].
function pixelCenters(side = SIDE) {
  return Array.from({ length: side * side }, (_, i) => [2 * ((i % side) + 0.5) / side - 1, 2 * (Math.floor(i / side) + 0.5) / side - 1]);
}

// Share of each octave of the cat that an image has: 1 minus the energy of the error over that of the cat.
// Octave k has the frequencies from 2^k to 2^(k+1) cycles across the image.
function recoveredOctaves(image, cat, side = SIDE) {
  const cosines = Array.from({ length: side }, (_, i) => Math.cos(2 * Math.PI * i / side));
  const sines = Array.from({ length: side }, (_, i) => Math.sin(2 * Math.PI * i / side));
  // Fourier coefficients of the mean of the three colors: along the rows, then along the columns.
  const spectrum = (values) => {
    const gray = Float64Array.from({ length: side * side }, (_, i) => (values[3 * i] + values[3 * i + 1] + values[3 * i + 2]) / 3);
    const transform = (re, im, step, stride) => {
      const outRe = new Float64Array(side * side), outIm = new Float64Array(side * side);
      for (let line = 0; line < side; line++) for (let u = 0; u < side; u++) {
        let a = 0, b = 0;
        for (let i = 0; i < side; i++) {
          const at = line * stride + i * step, c = cosines[u * i % side], s = -sines[u * i % side];
          a += re[at] * c - im[at] * s;
          b += re[at] * s + im[at] * c;
        }
        outRe[line * stride + u * step] = a;
        outIm[line * stride + u * step] = b;
      }
      return [outRe, outIm];
    };
    return transform(...transform(gray, new Float64Array(side * side), 1, side), side, 1);
  };
  const energies = (values) => {
    const [re, im] = spectrum(values), sums = [0, 0, 0, 0, 0];
    for (let row = 0; row < side; row++) for (let column = 0; column < side; column++) {
      const frequency = Math.max(Math.min(row, side - row), Math.min(column, side - column));
      const octave = Math.floor(Math.log2(frequency)), at = row * side + column;
      if (octave in sums) sums[octave] += re[at] ** 2 + im[at] ** 2;
    }
    return sums;
  };
  const error = energies(image.map((value, i) => value - cat[i])), whole = energies(cat);
  return whole.map((energy, octave) => Math.max(0, 1 - error[octave] / energy));
}

// A fit of the cat by an encoding of `bands`, or of `sigma`; without both, of raw coordinates.
class Fit {
  constructor({ bands = 0, sigma = 0, width }, cat) {
    const encoded = encodePoints(pixelCenters(), bands, sigma);
    Object.assign(this, { bands, sigma, cat, features: encoded.features, inputs: encoded.width, random: seeded(1) });
    this.network = new Network([encoded.width, width, width, 3], null, seeded(bands + 1));
  }

  // Steps on random pixels, for some milliseconds, as far as a given one.
  advance(milliseconds, until, batch = 256) {
    const end = performance.now() + milliseconds;
    do {
      const x = new Float32Array(batch * this.inputs), y = new Float32Array(batch * 3);
      for (let row = 0; row < batch; row++) {
        const pixel = Math.floor(this.random() * SIDE * SIDE);
        x.set(this.features.subarray(pixel * this.inputs, (pixel + 1) * this.inputs), row * this.inputs);
        y.set(this.cat.subarray(3 * pixel, 3 * pixel + 3), 3 * row);
      }
      this.network.train(x, y, batch, 0.005);
    } while (performance.now() < end && this.network.step < until);
  }

  // The image at twice the size, and at the pixels PSNR and octaves.
  render() {
    const image = this.network.forward(this.features, SIDE * SIDE);
    let error = 0;
    for (let i = 0; i < image.length; i++) error += (Math.min(Math.max(image[i], 0), 1) - this.cat[i]) ** 2 / image.length;
    this.between ??= encodePoints(pixelCenters(2 * SIDE), this.bands, this.sigma).features;
    return { image: this.network.forward(this.between, 4 * SIDE * SIDE), side: 2 * SIDE, psnr: psnr(error), octaves: recoveredOctaves(image, this.cat) };
  }
}

Fit.MOST = 3000; // Steps of the fit.
