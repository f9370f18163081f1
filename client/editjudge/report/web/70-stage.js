// Pictures side by side or over each other; scale, zoom and position are the same in all.
(app => {
  "use strict";
  const { node, foreign, plainly } = app;
  const MOST = 16; // times
  const HIGH = 0.62; // of the window that pictures may take
  const CAPTION = 26; // px
  const GAP = 10;
  const find = id => document.getElementById(id);
  const view = { scale: 1, x: 0, y: 0 }; // x and y in widths and heights of a pane
  let cut = 50; // where the slider stands, in % of the width
  let gain = 4;
  let period = 1000;
  let beat = null;

  function place() {
    const room = view.scale - 1;
    view.x = Math.min(0, Math.max(-room, view.x));
    view.y = Math.min(0, Math.max(-room, view.y));
    for (const layer of find("panes").querySelectorAll(".layer")) {
      layer.style.transform = `translate(${100 * view.x}%, ${100 * view.y}%) scale(${view.scale})`;
      layer.classList.toggle("pixels", view.scale >= 6);
    }
    find("panes").classList.toggle("zoomed", view.scale > 1);
    find("zoom").textContent = `${Math.round(100 * view.scale)} %`;
  }

  // Zoom by a factor about a point, given as fractions of the pane's size.
  function zoom(by, x = 0.5, y = 0.5) {
    const scale = Math.min(MOST, Math.max(1, view.scale * by));
    const grown = scale / view.scale;
    Object.assign(view, { scale, x: x - (x - view.x) * grown, y: y - (y - view.y) * grown });
    place();
  }

  function reset() {
    Object.assign(view, { scale: 1, x: 0, y: 0 });
    place();
  }

  // The largest size at which all panes are visible.
  function arrange() {
    const panes = find("panes");
    const count = panes.childElementCount;
    if (!count || !panes.clientWidth) return;
    const ratio = Number(panes.style.getPropertyValue("--ratio")) || 1;
    const high = innerHeight * HIGH - CAPTION;
    let best = [0, 1];
    for (let columns = 1; columns <= count; columns += 1) {
      const lines = Math.ceil(count / columns);
      const wide = Math.min((panes.clientWidth - GAP * (columns - 1)) / columns, (high / lines - CAPTION) * ratio);
      if (wide > best[0]) best = [wide, columns];
    }
    panes.style.setProperty("--wide", `${Math.floor(Math.max(best[0], 80))}px`);
    panes.style.setProperty("--columns", best[1]);
  }

  // The shape of the source, so that a pixel has one size in all panes.
  function shape(ratio) {
    find("panes").style.setProperty("--ratio", ratio);
    arrange();
  }

  function layer(picture, mask, of = "") {
    const image = node("img", { src: app.picture(picture.name), alt: plainly(picture.caption), draggable: "false" });
    return node("div", { class: `layer ${of}` }, image,
      mask && node("img", { class: "mask", src: app.picture(mask), alt: "", draggable: "false" }));
  }

  function size(image, caption) {
    const say = () => { caption.textContent = ` ${image.naturalWidth}\u00d7${image.naturalHeight}`; };
    if (image.complete && image.naturalWidth) say();
    else image.addEventListener("load", say, { once: true });
  }

  function pane(picture, mask) {
    const dimensions = node("span", { class: "soft" });
    const caption = node("figcaption", {},
      picture.pick ? node("button", { type: "button", class: "name", onclick: picture.pick }, foreign(picture.caption)) : foreign(picture.caption),
      dimensions);
    if (!picture.name) {
      return node("figure", { class: `pane ${picture.active ? "active" : ""}` },
        node("div", { class: "frame" }, node("p", { class: "none" }, foreign(picture.missing || "no picture"))), caption);
    }
    const frame = node("div", { class: "frame" }, layer(picture, mask));
    size(frame.querySelector("img"), dimensions);
    return node("figure", { class: `pane ${picture.active ? "active" : ""}` }, frame, caption);
  }

  function over(left, right, mask, kind) {
    const frame = node("div", { class: `frame ${kind}` }, layer(left, mask), layer(right, mask, "top"));
    return { frame, top: frame.lastChild };
  }

  const ends = (left, right) => node("figcaption", { class: "ends" },
    node("span", {}, "\u25e7 ", foreign(left.caption)), node("span", {}, foreign(right.caption), " \u25e8"));

  function slider(left, right, mask) {
    const { frame } = over(left, right, mask, "sliding");
    const veil = node("div", { class: "veil" });
    veil.append(frame.lastChild);
    const line = node("span", { class: "divider", "aria-hidden": "true" });
    const range = node("input", { type: "range", id: "cut", min: "0", max: "100", step: "0.5", value: cut,
      "aria-label": `how much of ${plainly(left.caption)} is seen, in per cent` });
    const move = to => {
      cut = Math.max(0, Math.min(100, to));
      veil.style.clipPath = `inset(0 0 0 ${cut}%)`;
      line.style.left = `${cut}%`;
      range.value = cut;
    };
    range.addEventListener("input", () => move(Number(range.value)));
    line.addEventListener("pointerdown", event => {
      event.stopPropagation();
      line.setPointerCapture(event.pointerId);
    });
    line.addEventListener("pointermove", event => {
      if (!line.hasPointerCapture(event.pointerId)) return;
      const box = frame.getBoundingClientRect();
      move(100 * (event.clientX - box.left) / box.width);
    });
    frame.append(veil, line);
    move(cut);
    return [node("figure", { class: "pane single" }, frame, range, ends(left, right))];
  }

  function flicker(left, right, mask) {
    const { frame, top } = over(left, right, mask, "");
    const label = node("strong", { id: "seen" });
    const swap = () => {
      top.hidden = !top.hidden;
      label.replaceChildren(foreign(top.hidden ? left.caption : right.caption));
    };
    const speed = node("select", { "aria-label": "how often it changes", onchange: event => {
      period = Number(event.target.value);
      start();
    } }, [[0, "by hand (space)"], [500, "every 0.5 s"], [1000, "every 1 s"], [2000, "every 2 s"]]
      .map(([value, text]) => node("option", { value, selected: value === period }, text)));
    const start = () => {
      clearInterval(beat);
      beat = period ? setInterval(swap, period) : null;
    };
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) { period = 0; speed.value = 0; }
    swap();
    swap();
    start();
    app.swap = swap;
    const box = node("input", { type: "checkbox", id: "aligned" });
    const aligned = node("label", { class: "check", hidden: true, title: "moves the result back by its measured drift" }, box, " aligned");
    right.back?.().then(style => {
      aligned.hidden = !style;
      box.addEventListener("change", () => { top.querySelector("img").style.transform = box.checked ? style : ""; });
    }, () => {}); // without its details there is no such choice
    return [node("figure", { class: "pane single" }, frame,
      node("figcaption", { class: "ends" }, node("span", {}, "seen: ", label), aligned, speed))];
  }

  function difference(left, right, mask, region) {
    const canvas = node("canvas", { role: "img", "aria-label": `difference between ${plainly(left.caption)} and ${plainly(right.caption)}` });
    const of = node("span", { class: "soft", id: "changed" });
    const range = node("input", { type: "range", min: "1", max: "16", step: "1", value: gain, "aria-label": "amplified, times" });
    const times = node("output", {}, `\u00d7${gain}`);
    const paint = () => {
      times.textContent = `\u00d7${gain}`;
      canvas.style.filter = `brightness(${gain}) url(#heat)`;
    };
    range.addEventListener("input", () => { gain = Number(range.value); paint(); });
    paint();
    app.subtract(canvas, app.picture(left.name), app.picture(right.name), region && app.picture(region))
      .then(text => { of.textContent = text; }, () => { of.textContent = "the pictures cannot be read"; });
    const layers = node("div", { class: "layer" }, canvas,
      mask && node("img", { class: "mask", src: app.picture(mask), alt: "", draggable: "false" }));
    return [node("figure", { class: "pane single" }, node("div", { class: "frame" }, layers),
      node("figcaption", { class: "ends" }, of, node("label", {}, "amplified ", range, times)))];
  }

  const OVER = { slider, flicker, difference };

  // Draw the pictures: `side` beside each other, or `left` and `right` over each other. `mask` is laid
  // over them; `region` is the same where it only tells inside from outside.
  function stage({ side, left, right, mask, region, show }) {
    clearInterval(beat);
    app.swap = null;
    const both = left?.name && right?.name;
    const made = OVER[show] && both ? OVER[show](left, right, mask, region) : side.map(each => pane(each, mask));
    const panes = find("panes");
    panes.replaceChildren(...made);
    arrange();
    place();
  }

  const HOLD = new Map(); // pointers on the pictures
  let apart = 0;

  function spot(event) {
    const box = event.target.closest(".frame").getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height, box];
  }

  function dragged(event) {
    const before = HOLD.get(event.pointerId);
    if (!before) return;
    const [x, y] = spot(event);
    HOLD.set(event.pointerId, [x, y]);
    if (HOLD.size === 2) {
      const [one, other] = [...HOLD.values()];
      const now = Math.hypot(one[0] - other[0], one[1] - other[1]);
      if (apart) zoom(now / apart, (one[0] + other[0]) / 2, (one[1] + other[1]) / 2);
      apart = now;
    } else if (view.scale > 1) {
      view.x += x - before[0];
      view.y += y - before[1];
      place();
    }
  }

  function listen() {
    const panes = find("panes");
    panes.addEventListener("wheel", event => {
      if (!event.target.closest(".frame") || !(event.ctrlKey || event.metaKey || view.scale > 1)) return;
      event.preventDefault();
      const [x, y] = spot(event);
      zoom(Math.exp(-event.deltaY / 300), x, y);
    }, { passive: false });
    panes.addEventListener("dblclick", event => {
      if (!event.target.closest(".frame")) return;
      const [x, y] = spot(event);
      if (view.scale > 1) reset(); else zoom(3, x, y);
    });
    panes.addEventListener("pointerdown", event => {
      if (!event.target.closest(".frame") || event.button) return;
      const [x, y] = spot(event);
      HOLD.set(event.pointerId, [x, y]);
      apart = 0;
      event.target.setPointerCapture(event.pointerId);
    });
    panes.addEventListener("pointermove", dragged);
    for (const name of ["pointerup", "pointercancel"]) {
      panes.addEventListener(name, event => { HOLD.delete(event.pointerId); apart = 0; });
    }
    panes.addEventListener("keydown", event => {
      const [x, y] = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [];
      if (x === undefined || view.scale === 1 || event.target.matches("input, select")) return;
      event.preventDefault();
      event.stopPropagation();
      view.x += x * 0.1;
      view.y += y * 0.1;
      place();
    });
    addEventListener("resize", arrange);
    find("closer").addEventListener("click", () => zoom(1.5));
    find("farther").addEventListener("click", () => zoom(1 / 1.5));
    find("zoom").addEventListener("click", reset);
  }

  Object.assign(app, { stage, shape, zoom, reset, listenToStage: listen });
})(window.editjudge ??= {});
