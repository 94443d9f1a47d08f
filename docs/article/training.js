"use strict";
// Figures whose networks train while one reads, each in a worker of its own, so that scrolling stays smooth.

const LEAD = 20; // Steps by which a fit may be ahead of the slowest.

// A worker that trains `new Type(options, cat)` and posts what its render() returns, now and then.
function trainer(Type, onImage) {
  const run = `let fit = null, until = 0, isWaiting = false, cost = 0, trained = 0;
  onmessage = ({ data }) => {
    if (data.cat) fit = new ${Type.name}(data.options, data.cat);
    until = Math.min(data.until, ${Type.name}.MOST);
    loop();
  };
  function loop() {
    if (isWaiting || fit.network.step >= until) return;
    let begun = performance.now(), rendered = {};
    fit.advance(60, until);
    trained += performance.now() - begun;
    if (trained >= Math.max(60, 3 * cost) || fit.network.step >= ${Type.name}.MOST) { // A quarter of the time at most goes into images.
      begun = performance.now();
      rendered = fit.render();
      cost = performance.now() - begun;
      trained = 0;
    }
    postMessage({ ...rendered, step: fit.network.step, isDone: fit.network.step >= ${Type.name}.MOST, parameters: fit.network.numParameters });
    isWaiting = true;
    setTimeout(() => { isWaiting = false; loop(); }, 0);
  }`;
  return pureWorker(run, onImage);
}

// A worker that runs a script after those that need no page, and hands over what it posts.
function pureWorker(run, onMessage) {
  const worker = new Worker(URL.createObjectURL(new Blob([document.getElementById("pure").textContent + run], { type: "text/javascript" })));
  worker.onmessage = ({ data }) => onMessage(data);
  return worker;
}

// Fits side by side, with a button to train and to pause and sliders that start those anew which read them.
// fits: [{options(): what its Type is given, sliders: [its inputs], show(state)}]; draw() after each state.
function race(figure, Type, fits, draw) {
  const cat = catPixels(), button = figure.querySelector("button");
  // It begins by itself when it is seen, unless less motion was asked for, and pauses out of sight;
  // from then on it goes on as the button was left.
  let isGoing = false, isAsked = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  const goOn = () => {
    const slowest = Math.min(...fits.map((fit) => fit.isDone ? Infinity : fit.step));
    for (const fit of fits) fit.worker?.postMessage({ until: isGoing ? slowest + LEAD : 0 });
  };
  const start = (fit) => {
    fit.worker?.terminate();
    Object.assign(fit, { curve: [], isDone: false, step: 0 });
    fit.worker = trainer(Type, (state) => {
      Object.assign(fit, { isDone: state.isDone, step: state.step });
      if (fits.every((each) => each.isDone)) set(false);
      goOn();
      if (!state.image) return;
      fit.state = state;
      fit.curve.push([state.step, fit.score(state)]);
      fit.show(state);
      draw();
    });
    fit.worker.postMessage({ options: fit.options(), cat, until: 0 });
  };
  const set = (value) => {
    isGoing = value;
    const isOver = fits.every((each) => each.isDone);
    button.textContent = isGoing ? "Pause" : isOver ? "Train again" : "Train";
    for (const fit of fits) if (isGoing && (!fit.worker || isOver)) start(fit);
    goOn();
  };
  button.addEventListener("click", () => { isAsked = !isGoing; set(isAsked); });
  for (const slider of figure.querySelectorAll("input")) {
    slider.addEventListener("input", () => { slider.parentElement.querySelector("output").textContent = slider.value; });
    slider.addEventListener("change", () => {
      const read = fits.filter((fit) => fit.worker && fit.sliders.includes(slider));
      read.forEach(start);
      if (read.length) { isAsked = true; set(true); }
    });
  }
  window.addEventListener("resize", draw);
  draw();
  new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) set(false);
    else if (isAsked && !fits.every((each) => each.isDone)) set(true);
  }).observe(figure);
}

// Curves of all fits against the step.
function drawCurves(canvas, fits, axes) {
  const last = Math.max(1, ...fits.flatMap(({ curve = [] }) => curve.map(([step]) => step)));
  lineChart(canvas, fits.map(({ curve = [], label }, i) => ({ values: curve, label, color: css(COLORS[i]) })),
    { x: [0, 300 * Math.ceil(last / 300)], ...axes });
}

// Three fits of the same cat: raw coordinates, L bands, and Gaussian features.
FIGURES.train = (figure) => {
  const [original, raw, encoded, normal, chart, octaves] = figure.querySelectorAll("canvas");
  const [bands, sigma] = figure.querySelectorAll("input");
  showImage(original, catPixels(), SIDE);
  const fits = [
    { canvas: raw, label: "raw coordinates", sliders: [], options: () => ({ width: 128 }), title: () => "raw" },
    { canvas: encoded, label: "L bands", sliders: [bands], options: () => ({ bands: +bands.value, width: 64 }), title: () => `${bands.value} bands` },
    { canvas: normal, label: "Gaussian, σ", sliders: [sigma], options: () => ({ sigma: +sigma.value, width: 64 }), title: () => `σ = ${sigma.value}` },
  ];
  for (const fit of fits) {
    const caption = fit.canvas.nextElementSibling;
    fit.score = (state) => state.psnr;
    fit.show = ({ image, side, psnr, parameters, step }) => {
      showImage(fit.canvas, image, side);
      caption.textContent = `${fit.title()}: ${psnr.toFixed(1)} dB, ${parameters.toLocaleString("en")} parameters, step ${step}`;
    };
  }
  race(figure, Fit, fits, () => {
    drawCurves(chart, fits, { y: [10, 40], xLabel: "step; PSNR in dB" });
    lineChart(octaves, fits.map(({ state }, i) => ({ values: state ? state.octaves.map((share, k) => [k, share]) : [], label: fits[i].label, color: css(COLORS[i]) })),
      { x: [0, 4], y: [0, 1], xLabel: "octave; share of it recovered", legend: "right" });
  });
};
