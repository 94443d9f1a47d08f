"use strict";
// Figures about coordinates: what one pixel changes, the loss of a shift, and rays.

// What else changes when the network learns one pixel.
FIGURES.kernel = (figure) => {
  const [curve, plane] = figure.querySelectorAll("canvas");
  controls(figure, ({ bands }) => {
    const values = Array.from({ length: 2049 }, (_, i) => [(i - 1024) / 512, kernel((i - 1024) / 512, bands)]);
    lineChart(curve, [{ values }], { x: [-2, 2], y: [-1, 1], xLabel: "distance of two coordinates", marks: [-2, 0, 2] });
    // Whole pixels of 256, so that no band is seen as another one.
    const along = Array.from({ length: 257 }, (_, i) => i / 128 - 1);
    // Raw inputs of two axes share the 1 of the bias; bands of two axes are added.
    const plain = (down) => along.map((across) => kernel(Math.hypot(down, across), 0));
    const encoded = along.map((at) => kernel(at, bands));
    heatMap(plane, bands ? encoded.map((down) => encoded.map((across) => (down + across) / 2)) : along.map(plain));
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
      const t = chosen.distances[i];
      g.beginPath(); g.arc(toX(eye[0] + t * dx), toY(eye[1] + t * dy), 0.7 + 14 * weight, 0, 7); g.fill();
    });
    const { g: strip, width: across, height: high } = context(image);
    for (let i = 0; i < 64; i++) {
      strip.fillStyle = `rgb(${renderRay(eye, ray(i, 64)).color.map((c) => 255 * c)})`;
      strip.fillRect(i * across / 64, 0, across / 64 + 1, high);
    }
    strip.strokeStyle = "#000";
    strip.strokeRect(pixel * across / 64, 1, across / 64, high - 2);
    lineChart(weights, [{ values: chosen.weights.map((w, i) => [chosen.distances[i], w]), color: css("--encoded"), label: "weight" }],
      { x: [0.4, 2.8], y: [0, 0.3], xLabel: "distance along the ray" });
  });
};

// Another page, docs/zone_plate.html, from where it comes into view.
function framed(figure) {
  const frame = figure.querySelector("iframe");
  new IntersectionObserver(([entry], observer) => {
    if (!entry.isIntersecting) return;
    observer.disconnect();
    frame.srcdoc = JSON.parse(document.getElementById(figure.dataset.figure).textContent);
  }).observe(figure);
  // As high as what it shows.
  const fitHeight = () => { frame.style.height = `${frame.contentDocument.body.scrollHeight}px`; };
  // The article has said what it shows.
  frame.addEventListener("load", () => frame.contentDocument.querySelector("h1")?.remove());
  frame.addEventListener("load", () => new frame.contentWindow.ResizeObserver(fitHeight).observe(frame.contentDocument.body));
}
FIGURES.zone = framed;
