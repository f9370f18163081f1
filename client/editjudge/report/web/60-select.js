// Filters and order of the edits, and their controls.
(app => {
  "use strict";
  const { node, plainly } = app;
  const STATUSES = ["scored", "unscored", "failed", "not applicable", "not served", "missing output", "pending"];
  const find = id => document.getElementById(id);
  let replies = null; // by edit: the replies of judges in lower case
  let rows = [];

  const holds = (text, words) => words.every(word => text.includes(word));

  function matches(edit, state, words, dimensions, shown) {
    const { edits, names } = app;
    const item = edits.item[edit];
    if (state.of && names[edits.model[edit]] !== state.of) return false;
    if (state.task && edits.items.task[item] !== state.task) return false;
    if (state.status && !dimensions.some(d => app.WORDS[app.letter(d, edit)] === state.status)) return false;
    if (state.decision && app.decided(edit) !== state.decision) return false;
    if (state.kind && !dimensions.some(d => app.kind(d, edit) === state.kind)) return false;
    if ((state.from || state.to) && !between(app.value(shown, edit), state)) return false;
    if (!words.length) return true;
    const said = `${edits.items.id[item]} ${app.instruction(edit)}`.toLowerCase();
    if (holds(said, words)) return true;
    return state.in === "replies" && replies !== null && holds(replies[edit] ?? "", words);
  }

  function between(value, { from, to }) {
    return value !== null && (!from || value >= Number(from)) && (!to || value <= Number(to));
  }

  // The dimension whose values are shown: the selected one, or the first with numbers.
  function dimensionNow() {
    const asked = app.dimensionOf(app.state.dimension);
    if (asked >= 0) return asked;
    return app.judged.find(d => app.edits.values[d] !== null) ?? -1;
  }

  // The two models whose gap is shown.
  function pair() {
    const at = name => app.names.indexOf(name);
    const a = Math.max(at(app.state.a), 0);
    const b = at(app.state.b);
    return [a, b >= 0 && b !== a ? b : (a === 0 ? 1 : 0)];
  }

  function gaps(edits, dimension) {
    const [a, b] = pair();
    const told = [];
    for (const [item, ofItem] of app.ofItem) {
      const [one, other] = [a, b].map(model => ofItem.find(edit => app.edits.model[edit] === model));
      if (one === undefined || other === undefined || !(edits.has(one) || edits.has(other))) continue;
      const [x, y] = [one, other].map(edit => app.value(dimension, edit));
      if (x !== null && y !== null) told.push({ edit: one, other, item, gap: x - y });
    }
    return told.sort((one, other) => Math.abs(other.gap) - Math.abs(one.gap) || one.edit - other.edit);
  }

  function sorted(edits, dimension, sort) {
    if (!sort || dimension < 0) return edits;
    const sign = app.report.dimensions[dimension].higher_is_better === (sort === "best") ? -1 : 1;
    const value = new Map(edits.map(edit => [edit, app.value(dimension, edit)]));
    return [...edits].sort((one, other) => {
      const [a, b] = [value.get(one), value.get(other)];
      if (a === null || b === null) return (a === null) - (b === null) || one - other;
      return sign * (a - b) || one - other;
    });
  }

  function select() {
    const { state } = app;
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    const dimension = dimensionNow();
    const asked = app.dimensionOf(state.dimension) >= 0 ? [dimension] : app.judged;
    const edits = app.edits.item.map((_, edit) => edit)
      .filter(edit => matches(edit, state, words, asked, dimension));
    rows = state.sort === "gap" && app.names.length > 1 && dimension >= 0
      ? gaps(new Set(edits), dimension)
      : sorted(edits, dimension, state.sort).map(edit => ({ edit }));
    return rows;
  }

  // Read all blocks once to search the replies.
  async function readReplies() {
    const { report } = app;
    const found = [];
    for (let block = 0; block < report.chunks; block += 1) {
      if (app.report !== report || app.state.in !== "replies") return;
      find("reading").textContent = `reading replies: ${block + 1} of ${report.chunks}`;
      const { calls, edits } = await app.load(`detail-${block}`);
      for (const [edit, { verdicts }] of Object.entries(edits)) {
        const said = verdicts.flatMap(({ reason, calls: of }) =>
          [reason, ...of.map(number => app.words(calls[number].reply))]);
        found[edit] = [...new Set(said)].filter(Boolean).join("\n").toLowerCase();
      }
    }
    replies = found;
    find("reading").textContent = "";
  }

  async function search() {
    if (app.state.in !== "replies" || replies !== null) return;
    try {
      await readReplies();
    } catch (error) {
      find("reading").textContent = `replies cannot be searched: ${error.message}`;
      return;
    }
    app.listed();
  }

  function options(id, all, any, chosen) {
    const values = chosen && !all.some(([value]) => value === chosen) ? [...all, [chosen, chosen]] : all;
    find(id).replaceChildren(node("option", { value: "" }, any),
      ...values.map(([value, text]) => node("option", { value }, plainly(text))));
    find(id).value = chosen;
  }

  function controls() {
    const { state, names, edits, report } = app;
    const same = all => all.map(one => [one, one]);
    options("f-of", same(names), "every model", state.of);
    options("f-dimension", app.judged.map(d => [report.dimensions[d].id, report.dimensions[d].title]),
      "every dimension", state.dimension);
    options("f-status", same(STATUSES), "every status", state.status);
    options("f-kind", same(Object.values(app.KINDS)), "every kind", state.kind);
    options("f-task", same([...new Set(edits.items.task)].filter(Boolean).sort()), "every task", state.task);
    options("f-decision", same(["accepted", "rejected", "undecided"]), "every decision", state.decision);
    if (find("f-words").value.trim() !== state.words) find("f-words").value = state.words;
    find("f-in").checked = state.in === "replies";
    find("f-sort").value = state.sort;
    const [a, b] = pair();
    find("gap").hidden = state.sort !== "gap" || names.length < 2;
    for (const [id, model] of [["f-a", a], ["f-b", b]]) {
      find(id).replaceChildren(...names.map(name => node("option", { value: name }, plainly(name))));
      find(id).value = names[model] ?? "";
    }
    find("f-range").hidden = !(state.from || state.to);
    find("f-range").textContent = `${state.from || "\u2026"} to ${state.to || "\u2026"} \u00d7`;
    const set = ["of", "dimension", "status", "kind", "task", "decision", "from"].filter(name => state[name]).length;
    find("f-set").textContent = set ? ` (${set})` : "";
    find("f-clear").hidden = !(set || state.words || state.sort);
  }

  function listen() {
    for (const name of ["of", "dimension", "status", "kind", "task", "decision", "sort", "a", "b"]) {
      find(`f-${name}`).addEventListener("change", event => {
        const range = name === "dimension" ? { from: "", to: "" } : {};
        app.go({ [name]: event.target.value, ...range });
      });
    }
    let waiting;
    find("f-words").addEventListener("input", event => {
      clearTimeout(waiting);
      waiting = setTimeout(() => app.go({ words: event.target.value.trim() }), 120);
    });
    find("f-in").addEventListener("change", event => app.go({ in: event.target.checked ? "replies" : "" }));
    find("f-range").addEventListener("click", () => app.go({ from: "", to: "" }));
    find("f-clear").addEventListener("click", () => {
      app.go({ words: "", in: "", of: "", dimension: "", status: "", kind: "", task: "", decision: "", sort: "", from: "", to: "" });
    });
  }

  Object.assign(app, {
    select, search, controls, listenToFilters: listen, dimensionNow, pair,
    rows: () => rows, forget: () => { replies = null; },
  });
})(window.editjudge ??= {});
