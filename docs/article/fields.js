"use strict";
// Figures about coordinates: the fit that trains while one reads, its kernel, alignment, and rays.

// A fit in a worker of its own, so that scrolling stays smooth.
function trainer(onImage) {
  const run = `onmessage = ({ data }) => {
    if (data.cat) { fit = new Fit(data.encoding, data.cat); going = true; loop(); }
    else { const was = going; going = data.going; if (fit && going && !was) loop(); }
  };
  let fit = null, going = false, waiting = false, cost = 0;
  function loop() {
    if (waiting || !going || fit.network.step >= ${Fit.MOST}) return;
    fit.advance(Math.max(60, 3 * cost));
    const begun = performance.now(), image = fit.render();
    cost = performance.now() - begun;
    postMessage({ image, side: 2 * SIDE, isDone: fit.network.step >= Fit.MOST, psnr: fit.psnr, octaves: fit.octaves, step: fit.network.step, parameters: fit.network.numParameters });
    waiting = true;
    setTimeout(() => { waiting = false; loop(); }, 20);
  }`;
  const worker = new Worker(URL.createObjectURL(new Blob([document.getElementById("pure").textContent + run], { type: "text/javascript" })));
  worker.onmessage = ({ data }) => onImage(data);
  return worker;
}

// Three fits of the same cat, side by side: raw coordinates, L bands, and Gaussian features.
FIGURES.train = (figure) => {
  const [original, raw, encoded, normal, chart, octaves] = figure.querySelectorAll("canvas"), cat = catPixels();
  const [bands, sigma] = figure.querySelectorAll("input");
  showImage(original, cat, SIDE);
  const fits = [
    { canvas: raw, label: figure.querySelector(".raw"), encoding: () => ({ width: 128 }), title: () => "raw" },
    { canvas: encoded, label: figure.querySelector(".encoded"), slider: bands, encoding: () => ({ bands: +bands.value, width: 64 }), title: () => `${bands.value} bands` },
    { canvas: normal, label: figure.querySelector(".gaussian"), slider: sigma, encoding: () => ({ sigma: +sigma.value, width: 64 }), title: () => `σ = ${sigma.value}` },
  ];
  const names = ["raw coordinates", "L bands", "Gaussian, σ"];
  const draw = () => {
    const last = Math.max(1, ...fits.flatMap(({ curve }) => (curve || []).map(([step]) => step)));
    lineChart(chart, fits.map(({ curve }, i) => ({ values: curve || [], label: names[i], color: css(COLORS[i]) })),
      { x: [0, 400 * Math.ceil(last / 400)], y: [10, 40], xLabel: "step; PSNR in dB" });
    lineChart(octaves, fits.map(({ shares }, i) => ({ values: (shares || []).map((share, k) => [k, share]), color: css(COLORS[i]) })),
      { x: [0, 4], y: [0, 1], xLabel: "octave; share of it recovered" });
  };
  for (const fit of fits) {
    fit.start = () => {
      if (fit.worker) fit.worker.terminate();
      fit.curve = [];
      fit.isDone = false;
      const title = fit.title();
      fit.worker = trainer(({ image, side, psnr, octaves: shares, step, parameters, isDone }) => {
        showImage(fit.canvas, image, side);
        fit.isDone = isDone;
        if (fits.every((each) => each.isDone)) set(false);
        fit.curve.push([step, psnr]);
        fit.shares = shares;
        fit.label.textContent = `${title}: ${psnr.toFixed(1)} dB, ${parameters.toLocaleString("en")} parameters, step ${step}`;
        draw();
      });
      fit.worker.postMessage({ encoding: fit.encoding(), cat });
    };
  }
  const button = figure.querySelector("button");
  let going = false;
  const set = (value) => {
    going = value;
    const isOver = fits.every((each) => each.isDone);
    button.textContent = going ? "Pause" : isOver ? "Train again" : "Train";
    for (const fit of fits) if (going && (!fit.worker || isOver)) fit.start(); else if (fit.worker) fit.worker.postMessage({ going });
  };
  button.addEventListener("click", () => set(!going));
  for (const fit of fits.slice(1)) {
    const shown = fit.slider.parentElement.querySelector("output");
    fit.slider.addEventListener("input", () => { shown.textContent = fit.slider.value; });
    fit.slider.addEventListener("change", () => { if (fit.worker) { fit.start(); set(true); } });
  }
  window.addEventListener("resize", draw);
  draw();
  // It begins by itself when it is seen, unless less motion was asked for, and pauses out of sight.
  new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) set(false);
    else if (!matchMedia("(prefers-reduced-motion: reduce)").matches) set(true);
  }).observe(figure);
};

// What else changes when the network learns one pixel.
FIGURES.kernel = (figure) => {
  const [curve, plane] = figure.querySelectorAll("canvas");
  controls(figure, ({ bands }) => {
    const values = Array.from({ length: 2049 }, (_, i) => [(i - 1024) / 512, kernel((i - 1024) / 512, bands)]);
    lineChart(curve, [{ values }], { x: [-2, 2], y: [-1, 1], xLabel: "distance of two coordinates", marks: [-2, 0, 2] });
    const side = 96, along = Array.from({ length: side }, (_, i) => kernel(2 * (i + 0.5) / side - 1, bands));
    heatMap(plane, along.map((down) => along.map((across) => (down + across) / 2)));
  });
};

// A row of the cat that was moved: the loss against the shift, and a ball that rolls down.
FIGURES.alignment = (figure) => {
  const canvas = figure.querySelector("canvas"), text = figure.querySelector("p.value"), cat = catPixels();
  const row = frequencyEnergies(Array.from({ length: SIDE }, (_, i) => cat[3 * (36 * SIDE + i)]));
  const shifts = Array.from({ length: 257 }, (_, i) => i / 4 - 32), most = 24;
  controls(figure, ({ start, bands }) => {
    const losses = shifts.map((shift) => [shift, alignmentLoss(row, shift, bands)]);
    const top = Math.max(...losses.map(([, loss]) => loss));
    const end = descend(row, start, () => bands), eased = descend(row, start, (progress) => easedBands(progress, most));
    lineChart(canvas, [
      { values: losses, label: `loss with ${bands} bands`, color: css("--soft") },
      { values: [[start, alignmentLoss(row, start, bands)]], dots: true, label: "start", color: css("--none") },
      { values: [[end, alignmentLoss(row, end, bands)]], dots: true, label: "end with these bands", color: css("--fourth") },
      { values: [[eased, alignmentLoss(row, eased, bands)]], dots: true, label: "end with bands eased in", color: css("--encoded") },
    ], { x: [-32, 32], y: [0, top * 1.7], xLabel: "shift in pixels; 0 is right", marks: [0] });
    text.textContent = `these bands all along: ${Math.abs(end).toFixed(1)} pixels off; from 1 band to ${most}: ${Math.abs(eased).toFixed(1)} pixels off`;
  });
};

// A world of two dimensions, a camera whose images are rows, and the weights along one of its rays.
FIGURES.rays = (figure) => {
  const [world, image, weights] = figure.querySelectorAll("canvas");
  controls(figure, ({ angle, pixel }) => {
    const { g, width, height } = context(world), scale = Math.min(width, height) / 3.6, turn = angle * Math.PI / 180;
    const toX = (x) => width / 2 + scale * x, toY = (y) => height / 2 - scale * y;
    for (const disc of DISCS) {
      g.fillStyle = `rgb(${disc.color.map((c) => 255 * c)})`;
      g.globalAlpha = disc.density > 5 ? 1 : 0.55;
      g.beginPath(); g.arc(toX(disc.x), toY(disc.y), scale * disc.radius, 0, 7); g.fill();
    }
    g.globalAlpha = 1;
    const eye = [1.6 * Math.cos(turn), 1.6 * Math.sin(turn)];
    const ray = (i, n) => {
      const across = Math.atan(0.75 * (1 - 2 * (i + 0.5) / n)) + turn + Math.PI;
      return [Math.cos(across), Math.sin(across)];
    };
    g.strokeStyle = css("--soft");
    [ray(0, 64), ray(63, 64)].forEach(([dx, dy]) => { g.beginPath(); g.moveTo(toX(eye[0]), toY(eye[1])); g.lineTo(toX(eye[0] + 2.8 * dx), toY(eye[1] + 2.8 * dy)); g.stroke(); });
    const chosen = renderRay(eye, ray(pixel, 64)), [dx, dy] = ray(pixel, 64);
    // Samples along the chosen ray, as large as their weights.
    g.fillStyle = css("--text");
    chosen.weights.forEach((weight, i) => {
      const t = 0.4 + (i + 0.5) * 0.02;
      g.beginPath(); g.arc(toX(eye[0] + t * dx), toY(eye[1] + t * dy), 0.7 + 14 * weight, 0, 7); g.fill();
    });
    const { g: strip, width: across, height: high } = context(image);
    for (let i = 0; i < 64; i++) {
      strip.fillStyle = `rgb(${renderRay(eye, ray(i, 64)).color.map((c) => 255 * c)})`;
      strip.fillRect(i * across / 64, 0, across / 64 + 1, high);
    }
    strip.strokeStyle = "#000";
    strip.strokeRect(pixel * across / 64, 1, across / 64, high - 2);
    lineChart(weights, [{ values: chosen.weights.map((w, i) => [0.4 + 0.02 * i, w]), color: css("--encoded"), label: "weight" }],
      { x: [0.4, 2.8], y: [0, 0.3], xLabel: "distance along the ray" });
  });
};
