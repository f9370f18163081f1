// The data of the page, from blocks in the page or scripts beside it.
(app => {
  "use strict";

  const WORDS = {
    S: "scored", I: "scored", U: "unscored", F: "failed", N: "not applicable", "-": "not served",
    M: "missing output", P: "pending",
  };
  const KINDS = { a: "abstained", u: "unparsable", r: "refused", d: "degenerate" };
  const KEPT = 12; // blocks of details that are held at a time
  const cache = new Map();
  const arrived = new Map();

  const mode = () => document.documentElement.dataset.mode;

  // Called by the scripts beside a page in a folder.
  app.put = (name, value) => {
    arrived.get(name)?.(value);
    arrived.delete(name);
  };

  function beside(name) {
    return new Promise((resolve, reject) => {
      arrived.set(name, resolve);
      const script = document.createElement("script");
      script.src = `${app.report.data}/${name}.js`;
      script.addEventListener("error", () => reject(new Error(`${script.src} is missing`)));
      script.addEventListener("load", () => {
        if (arrived.delete(name)) reject(new Error(`${script.src} is damaged`));
        script.remove();
      });
      document.head.append(script);
    });
  }

  async function load(name) {
    const block = document.getElementById(`data-${name}`);
    if (block) return JSON.parse(block.textContent);
    if (mode() === "folder") return beside(name);
    throw new Error(`the page has no ${name}`);
  }

  // The block with the details of an edit, cached with its neighbours.
  function details(edit) {
    const name = `detail-${Math.floor(edit / app.report.chunk)}`;
    const found = cache.get(name) ?? load(name);
    cache.delete(name);
    cache.set(name, found);
    found.catch(() => cache.delete(name));
    if (cache.size > KEPT) cache.delete(cache.keys().next().value);
    return found;
  }

  // The address of a picture.
  function picture(name) {
    if (mode() === "folder") return `pictures/${name}.webp`;
    return document.getElementById(`picture-${name}`)?.textContent ?? "";
  }

  // Names of the models, with the last part of their run's path where a name occurs twice.
  function names(models, runs) {
    const last = runs.map(({ name }) => name.split("/").at(-1));
    const short = new Set(last).size === runs.length;
    const often = new Map();
    for (const { name } of models) often.set(name, (often.get(name) ?? 0) + 1);
    return models.map(({ name, run }) =>
      often.get(name) > 1 ? `${name} (${(short ? last[run] : runs[run]?.name) ?? run})` : name);
  }

  // The ends of the scale: the range of a dimension, or of its values where the range is far wider.
  function scale([low, high], values) {
    const there = (values ?? []).filter(value => value !== null);
    if (!there.length) return null;
    const from = Number.isFinite(low) ? low : Math.min(0, there.reduce((a, b) => Math.min(a, b)));
    const most = there.reduce((a, b) => Math.max(a, b));
    const to = Number.isFinite(high) && most - from > 0.1 * (high - from) ? high : most;
    return to > from ? [from, to] : null;
  }

  // Take a report and its edits, and build the look-up tables.
  function take(report, edits) {
    cache.clear();
    const ofItem = new Map();
    edits.item.forEach((item, edit) => {
      if (!ofItem.has(item)) ofItem.set(item, []);
      ofItem.get(item).push(edit);
    });
    const places = new Map();
    edits.items.id.forEach((id, item) => {
      if (!places.has(id)) places.set(id, []);
      places.get(id).push(item);
    });
    Object.assign(app, { report, edits, ofItem, places, names: names(report.models, report.runs) });
    app.scales = report.dimensions.map((dimension, d) => scale(dimension.range, edits.values[d]));
    app.judged = report.dimensions.flatMap((_, d) =>
      /[^N-]/.test(edits.status[d]) ? [d] : []);
  }

  const letter = (dimension, edit) => {
    const letters = app.edits.status[dimension];
    return letters.length === 1 ? letters : letters[edit];
  };
  const value = (dimension, edit) => app.edits.values[dimension]?.[edit] ?? null;
  const kind = (dimension, edit) => KINDS[app.edits.kind[dimension]?.[edit]] ?? "";
  const instruction = edit => app.edits.items.instruction[app.edits.item[edit]] ?? "";
  const dimensionOf = id => app.report.dimensions.findIndex(each => each.id === id);

  // Find the edit of an item by a model, by their names; -1 if there is none.
  function find(id, model, run) {
    const items = app.places.get(id) ?? [];
    const of = items.filter(item => run === "" || String(app.edits.items.run[item]) === run);
    const edits = of.flatMap(item => app.ofItem.get(item) ?? []);
    return edits.find(edit => app.names[app.edits.model[edit]] === model) ?? edits[0] ?? -1;
  }

  Object.assign(app, {
    WORDS, KINDS, mode, load, details, picture, take, letter, value, kind, instruction, dimensionOf,
    find,
  });
})(window.editjudge ??= {});
