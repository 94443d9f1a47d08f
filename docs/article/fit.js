"use strict";
// The fit of the cat that runs in a worker: random pixels, Adam, and an image now and then.

const SIDE = 64;

// Pixel centers of the cat, row by row, x to the right and y down, in [-1, 1].
function pixelCenters(side = SIDE) {
  return Array.from({ length: side * side }, (_, i) => [2 * ((i % side) + 0.5) / side - 1, 2 * (Math.floor(i / side) + 0.5) / side - 1]);
}

// A fit of the cat: `bands` of 0 are the raw coordinates.
class Fit {
  constructor(bands, width, cat) {
    const encoded = encodePoints(pixelCenters(), bands);
    Object.assign(this, { bands, cat, features: encoded.features, inputs: encoded.width, random: seeded(1), curve: [] });
    this.network = new Network([encoded.width, width, width, 3], null, seeded(bands + 1));
  }

  // Steps on random pixels, for some milliseconds.
  advance(milliseconds, batch = 256) {
    const end = performance.now() + milliseconds;
    do {
      const x = new Float32Array(batch * this.inputs), y = new Float32Array(batch * 3);
      for (let row = 0; row < batch; row++) {
        const pixel = Math.floor(this.random() * SIDE * SIDE);
        x.set(this.features.subarray(pixel * this.inputs, (pixel + 1) * this.inputs), row * this.inputs);
        y.set(this.cat.subarray(3 * pixel, 3 * pixel + 3), 3 * row);
      }
      this.network.train(x, y, batch, 0.005);
    } while (performance.now() < end);
  }

  // The image at twice the size; measures the PSNR at the pixels.
  render() {
    const image = this.network.forward(this.features, SIDE * SIDE);
    let error = 0;
    for (let i = 0; i < image.length; i++) error += (Math.min(Math.max(image[i], 0), 1) - this.cat[i]) ** 2 / image.length;
    this.psnr = psnr(error);
    this.curve.push([this.network.step, this.psnr]);
    this.between ??= encodePoints(pixelCenters(2 * SIDE), this.bands).features;
    return this.network.forward(this.between, 4 * SIDE * SIDE);
  }
}

Fit.MOST = 3000; // Steps after which it has learned what it can.
