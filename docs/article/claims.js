"use strict";
// What is often said of positional encodings, each with the computation that decides it.

const CLAIMS = [
  {
    said: "A network can change one pixel and leave its neighbors alone.",
    is: false,
    shown: () => `With 8 bands the similarity to the next pixel of a 256-pixel image is ${kernel(1 / 128, 8).toFixed(2)}, half an image away it is ${kernel(1, 8).toFixed(2)}, and at a distance of 2 it is ${kernel(2, 8).toFixed(1)}: to it, the first pixel and the one after the last are the same.`,
  },
  {
    said: "Every column of the Transformer's embedding has a frequency of its own.",
    is: false,
    shown: () => {
      const [sine, cosine] = [sinusoidal(1, 8)[2], sinusoidal(1, 8)[3]];
      return `Columns come in pairs: columns 2 and 3 at position 1 have ${sine.toFixed(3)}² + ${cosine.toFixed(3)}² = ${(sine ** 2 + cosine ** 2).toFixed(3)}, sine and cosine of one angle. 512 columns have 256 frequencies.`;
    },
  },
  {
    said: "The similarity of two positions falls steadily with their distance.",
    is: false,
    shown: () => `It falls to offset ${firstBump()}, where it is ${similarity(firstBump()).toFixed(4)}, and rises to ${similarity(firstBump() + 1).toFixed(4)} at ${firstBump() + 1} (width 128).`,
  },
  {
    said: "… and goes to 0.",
    is: false,
    shown: () => {
      let zero = 1000;
      while (similarity(zero) > 0) zero++;
      const later = Array.from({ length: 40 }, (_, i) => similarity(500 * (i + 1)));
      return `At an offset of 1,000 it is still ${similarity(1000).toFixed(2)}: the slowest quarter of the pairs has turned by one radian at most. It first crosses 0 at ${zero.toLocaleString("en")} and swings on: at multiples of 500 up to 20,000 it is between ${Math.min(...later).toFixed(2)} and ${Math.max(...later).toFixed(2)}.`;
    },
  },
  {
    said: "It is symmetric: two before is as similar as two after.",
    is: true,
    shown: () => `${similarity(2).toFixed(6)} and ${similarity(-2).toFixed(6)}. A dot product of embeddings alone cannot tell left from right; a learned matrix between them can.`,
  },
  {
    said: "The wavelengths are 2π, 4π, 8π, …",
    is: false,
    shown: () => {
      const waves = [0, 1, 2].map((i) => (10000 ** (2 * i / 512)).toFixed(3));
      return `NeRF's also change by a factor of 2, but they shrink: its frequencies π, 2π, 4π have the wavelengths 2, 1, 1/2. The Transformer's wavelengths at width 512 are 2π times ${waves.join(", ")} and so on towards 10,000: a ratio of ${(10000 ** (2 / 512)).toFixed(3)}, not of 2.`;
    },
  },
  {
    said: "The exponent 2i/d has i from 0 to d/2, both included.",
    is: false,
    shown: () => `At width 512 that would be 257 pairs. i ends at 255, and the longest wavelength is 2π times ${Math.round(10000 ** (510 / 512)).toLocaleString("en")}, a little short of 10,000.`,
  },
  {
    said: "A band of 1/100 radian per position has a wavelength of 100π.",
    is: false,
    shown: () => `It is 200π: from position 0 to ${(200 * Math.PI).toFixed(0)} the angle grows by ${(200 * Math.PI / 100 / Math.PI).toFixed(0)}π, one full turn.`,
  },
  {
    said: "Positions count from 1, and the cosine comes first.",
    is: false,
    shown: () => `The authors' code begins at position 0, and the formula with a sine: ${sinusoidal(0, 4).join(", ")}. The other order is another table: its first row would be ${[Math.cos(1), Math.sin(1)].map((v) => v.toFixed(2)).join(", ")} and so on. A model reads only the one it was trained with.`,
  },
  {
    said: "The well-known heat map, all sines on its left half and all cosines on its right, is the paper's table.",
    is: false,
    shown: () => `It is that of the library tensor2tensor. The paper's columns alternate: at position 1 they begin with ${sinusoidal(1, 512).slice(0, 4).map((v) => v.toFixed(2)).join(", ")}, the library's with ${[0, 1, 2, 3].map((i) => Math.sin(10000 ** (-i / 255)).toFixed(2)).join(", ")}: sines alone, at wavelengths that end at 10,000 · 2π exactly. Weights trained with one do not work with the other.`,
  },
  {
    said: "The width d is the longest sequence.",
    is: false,
    shown: () => `With 8 columns, the two most similar of 1,000 positions are still ${nearest(8, 1000).toFixed(3)} apart.`,
  },
  {
    said: "The embedding is multiplied with that of the word.",
    is: false,
    shown: () => `A Transformer adds it. At position 0, ${sinusoidal(0, 64).filter((v) => v === 0).length} of 64 columns are 0, and a product would erase half of every first word. (End-to-end memory networks do multiply, by weights that are not sinusoids.)`,
  },
  {
    said: "Sinusoids let a model extrapolate to longer sequences.",
    is: false,
    shown: () => `Their values exist at any position, but a model trained on 128 characters goes from 1.84 to 5.04 bits per character at 1,024 (docs/results.md). ALiBi goes from 1.90 to 1.89.`,
  },
  {
    said: "The shift by k positions is a linear map.",
    is: true,
    shown: () => {
      const error = Math.max(...[3, 70, 999].map((t) => distance(shifted(sinusoidal(t), 5), sinusoidal(t + 5))));
      return `One matrix of rotations moves positions 3, 70 and 999 by 5, to ${error.toExponential(0)}.`;
    },
  },
  {
    said: "Bands 2ᵏπ can encode the positions of words.",
    is: false,
    shown: () => `At integers sin(2ᵏπt) is 0 in every band and cos is ±1: positions 2 and 4 are ${distance(fourier(2, 6), fourier(4, 6)).toExponential(0)} apart.`,
  },
  {
    said: "More bands are always better.",
    is: false,
    shown: () => {
      const sines = pixelCenters().map(([x]) => Math.abs(Math.sin(2 ** 6 * Math.PI * x)));
      return `At the centers of 64 pixels sin(2⁶πx) is at most ${Math.max(...sines).toExponential(0)}: training says nothing about this band or any above it, and between the pixels they are free.`;
    },
  },
  {
    said: "float32 tables are exact enough at position 5,000.",
    is: false,
    shown: () => {
      const errors = Array.from({ length: 256 }, (_, i) => {
        const band = 10000 ** (-2 * i / 512), rounded = Math.fround(5000 * Math.fround(band));
        const off = (wave) => Math.abs(wave(5000 * band) - wave(rounded));
        return Math.max(off(Math.sin), off(Math.cos));
      });
      return `Angles that are rounded to float32 are off by ${Math.max(...errors).toExponential(1)} there, as in the usual forms in PyTorch; rounding the result alone costs 3e-8.`;
    },
  },
  {
    said: "Adding the embedding makes the position unrecoverable.",
    is: false,
    shown: () => `Two random directions are nearly orthogonal in 128 columns. From the sum of a position and a random word of the same norm, the nearest of 64 embeddings is the right one in ${(100 * recovered()).toFixed(0)}% of 400 trials.`,
  },
  {
    said: "The binary digits of a position flip with the periods 1, 2, 4 and 8.",
    is: false,
    shown: () => {
      const period = (bit) => {
        const digits = Array.from({ length: 64 }, (_, t) => (t >> bit) & 1);
        for (let n = 1; n < 32; n++) if (digits.slice(n).every((digit, t) => digit === digits[t])) return n;
        return NaN;
      };
      return `The lowest digit is 0, 1, 0, 1: it repeats after ${period(0)}. The next ones repeat after ${[1, 2, 3].map(period).join(", ")}; 1, 2, 4 and 8 are how long each stays the same.`;
    },
  },
  {
    said: "The position weights of memory networks are waves of one period that start elsewhere.",
    is: false,
    shown: () => {
      const weight = (j, k) => (1 - j / 8) - (k / 4) * (1 - 2 * j / 8);
      const steps = [1, 4].map((k) => Array.from({ length: 7 }, (_, j) => (weight(j + 2, k) - weight(j + 1, k)).toFixed(4)));
      return `They are straight lines: over a sentence of 8 words the first of 4 columns changes by ${[...new Set(steps[0])].join(" or ")} from word to word, the last by ${[...new Set(steps[1])].join(" or ")} (Sukhbaatar et al. 2015, section 4.1).`;
    },
  },
  {
    said: "The weights of end-to-end memory networks begin as N(0, 1).",
    is: false,
    shown: () => "The paper draws them with a standard deviation of 0.1 (section 4.2); with 1 the first softmax over memories of width 20 would already be a choice.",
  },
  {
    said: "The encoder of ConvS2S pads both sides with k − 1 zeros.",
    is: false,
    shown: () => `That would make ${8 + 2 * 2 - 3 + 1} outputs of 8 symbols with a kernel of 3. The encoder pads (k − 1) / 2 on each side, which leaves ${8 + 2 - 3 + 1}; k − 1 on the left is the decoder's, which may not look ahead.`,
  },
];

// Smallest distance of two embeddings among the first positions.
function nearest(width, length) {
  const codes = Array.from({ length }, (_, t) => sinusoidal(t, width));
  return Math.min(...codes.map((code, t) => Math.min(...codes.slice(t + 1).map((other) => distance(code, other)), Infinity)));
}

// Numbers of the text, computed when the page is opened: <span data-value="name">.
const VALUES = {
  "kernel-neighbor": () => kernel(1 / 128, 8).toFixed(2),
  "kernel-one": () => kernel(1, 8).toFixed(2),
  "kernel-two": () => kernel(2, 8).toFixed(1),
  "raw-parameters": () => new Network([2, 128, 128, 3]).numParameters.toLocaleString("en"),
  "encoded-parameters": () => new Network([20, 64, 64, 3]).numParameters.toLocaleString("en"),
  "integer-distance": () => distance(fourier(2, 6), fourier(4, 6)).toExponential(0),
  "longest-wavelength": () => Math.round(2 * Math.PI * 10000).toLocaleString("en"),
  "head-plain": () => attention(20, 50)[18].toFixed(2),
  "head-scaled": () => attention(20, 50, { scale: 16 })[18].toFixed(2),
  "bump-128": () => firstBump(128),
  "bump-512": () => firstBump(512),
  "similarity-far": () => similarity(500, 512).toFixed(2),
  recovered: () => `${(100 * recovered()).toFixed(0)}%`,
};
