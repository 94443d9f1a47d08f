"use strict";
// A small ReLU network and Adam in plain arrays: what the article trains while it is read.

// sizes: [inputs, hidden, ..., outputs]; weights: one {weight, bias} per layer, or null for random ones.
class Network {
  constructor(sizes, weights = null, random = Math.random) {
    this.sizes = sizes;
    this.step = 0;
    this.layers = sizes.slice(1).map((outputs, i) => {
      const inputs = sizes[i], bound = 1 / Math.sqrt(inputs); // PyTorch's own initialization.
      const uniform = (n) => Float32Array.from({ length: n }, () => (2 * random() - 1) * bound);
      const layer = weights ? { weight: Float32Array.from(weights[i].weight), bias: Float32Array.from(weights[i].bias) }
        : { weight: uniform(inputs * outputs), bias: uniform(outputs) };
      for (const name of ["weight", "bias"]) {
        layer[`${name}Gradient`] = new Float32Array(layer[name].length);
        layer[`${name}Mean`] = new Float32Array(layer[name].length);
        layer[`${name}Square`] = new Float32Array(layer[name].length);
      }
      return layer;
    });
  }

  get numParameters() {
    return this.layers.reduce((sum, layer) => sum + layer.weight.length + layer.bias.length, 0);
  }

  // Outputs of `count` rows of features; keeps what the gradient needs.
  forward(features, count) {
    this.inputs = [features];
    let x = features;
    this.layers.forEach((layer, index) => {
      const [inputs, outputs] = [this.sizes[index], this.sizes[index + 1]];
      const y = new Float32Array(count * outputs), isHidden = index < this.layers.length - 1;
      for (let row = 0; row < count; row++) {
        const from = row * inputs, to = row * outputs;
        for (let o = 0; o < outputs; o++) {
          let sum = layer.bias[o];
          for (let i = 0, w = o * inputs; i < inputs; i++) sum += layer.weight[w + i] * x[from + i];
          y[to + o] = isHidden && sum < 0 ? 0 : sum;
        }
      }
      this.inputs.push(y);
      x = y;
    });
    return x;
  }

  // One step of Adam on the mean squared error; returns the loss before the step.
  train(features, targets, count, rate) {
    const outputs = this.forward(features, count), gradient = new Float32Array(outputs.length);
    let loss = 0;
    for (let i = 0; i < outputs.length; i++) {
      const error = outputs[i] - targets[i];
      loss += error * error / outputs.length;
      gradient[i] = 2 * error / outputs.length;
    }
    this.backward(gradient, count);
    this.update(rate);
    return loss;
  }

  backward(gradient, count) {
    for (let index = this.layers.length - 1; index >= 0; index--) {
      const layer = this.layers[index], [inputs, outputs] = [this.sizes[index], this.sizes[index + 1]];
      const x = this.inputs[index], isNext = index > 0, next = new Float32Array(isNext ? count * inputs : 0);
      layer.weightGradient.fill(0);
      layer.biasGradient.fill(0);
      for (let row = 0; row < count; row++) {
        for (let o = 0; o < outputs; o++) {
          const g = gradient[row * outputs + o];
          if (g === 0) continue; // A unit that was off, or an error of 0.
          layer.biasGradient[o] += g;
          const w = o * inputs, from = row * inputs;
          for (let i = 0; i < inputs; i++) layer.weightGradient[w + i] += g * x[from + i];
          if (isNext) for (let i = 0; i < inputs; i++) next[from + i] += g * layer.weight[w + i];
        }
      }
      // The gradient of a ReLU passes where its output is positive.
      if (index) for (let i = 0; i < next.length; i++) if (x[i] <= 0) next[i] = 0;
      gradient = next;
    }
  }

  update(rate) {
    this.step++;
    for (const layer of this.layers) for (const name of ["weight", "bias"]) {
      adam(layer[name], layer[`${name}Gradient`], layer[`${name}Mean`], layer[`${name}Square`], this.step, rate);
    }
  }
}

// One step of Adam, in place (Kingma and Ba 2015), with PyTorch's defaults.
function adam(values, gradient, mean, square, step, rate) {
  const first = 1 - 0.9 ** step, second = Math.sqrt(1 - 0.999 ** step);
  for (let i = 0; i < values.length; i++) {
    mean[i] = 0.9 * mean[i] + 0.1 * gradient[i];
    square[i] = 0.999 * square[i] + 0.001 * gradient[i] * gradient[i];
    values[i] -= rate / first * mean[i] / (Math.sqrt(square[i]) / second + 1e-8);
  }
}

// Random numbers from a seed (mulberry32), so that a page trains alike whenever it is opened.
function seeded(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function psnr(error) { return -10 * Math.log10(error); }
