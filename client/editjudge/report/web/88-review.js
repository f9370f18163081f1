// People's decisions about prepared items: accepted, rejected, undecided.
(app => {
  "use strict";
  const { node, foreign } = app;
  const find = id => document.getElementById(id);
  const WORDS = { accept: "accepted", reject: "rejected", "": "undecided" };
  const decisions = new Map(); // by the item's number: what was decided, and a note

  const review = () => app.report?.review;
  const of = edit => review().items[app.edits.item[edit]];
  const key = () => ["editjudge.prepare", review().what, review().data_digest].join(":");
  const decision = edit => decisions.get(edit) ?? { decision: "", note: "", marks: {} };
  // Whether an item may be accepted: all its marks are the best.
  const isFull = edit => of(edit).marks.every(name => decision(edit).marks[name] === review().best_mark);

  // The decision in words, for the list and its filter; nothing if there is none to make.
  const decided = edit => (review() && of(edit).decide ? WORDS[decision(edit).decision] : "");

  const saved = edit => ({
    id: app.edits.items.id[app.edits.item[edit]], seen: of(edit).seen, ...decision(edit),
  });

  function restore() {
    document.body.classList.toggle("in-review", Boolean(review()));
    if (!review()) return;
    let kept;
    try { kept = JSON.parse(app.kept(key()) || "[]"); } catch { kept = []; }
    const known = new Map(kept.map(one => [one.id, one]));
    let changed = 0;
    app.edits.item.forEach((_, edit) => {
      const one = known.get(saved(edit).id);
      if (one && one.seen !== of(edit).seen) changed += 1;
      else if (one) decisions.set(edit, { decision: one.decision, note: one.note, marks: one.marks ?? {} });
    });
    if (changed) app.report.warnings.push(`${app.counted(changed, "item has", "items have")} changed since you decided: decide again.`);
    count();
  }

  function count() {
    const open = app.edits.item.map((_, edit) => decided(edit)).filter(Boolean);
    const many = word => open.filter(each => each === word).length;
    find("decided").textContent = `${many("accepted")} accepted, ${many("rejected")} rejected, `
      + `${many("undecided")} of ${open.length} undecided`;
  }

  function set(edit, changes) {
    decisions.set(edit, { ...decision(edit), ...changes });
    const told = [...decisions.keys()].map(saved).filter(one => one.decision || one.note || Object.keys(one.marks).length);
    app.keep(key(), JSON.stringify(told));
    count();
  }

  function decide(value) {
    if (!review() || app.open < 0 || !of(app.open).decide) return;
    const now = app.open;
    if (value === "accept" && !isFull(now)) return;
    set(now, { decision: value });
    if (value) app.step(1);
    if (app.open === now) panel();
    app.listed(true);
  }

  // A mark that is not the best rejects the item; the last of the best marks accepts it.
  function mark(edit, name, value) {
    set(edit, { marks: { ...decision(edit).marks, [name]: value } });
    const given = Object.values(decision(edit).marks);
    set(edit, { decision: given.some(one => one < review().best_mark) ? "reject" : isFull(edit) ? "accept" : "" });
    panel();
    app.listed(true);
  }

  function markRow(edit, name) {
    const values = Array.from({ length: review().best_mark }, (_, n) => n + 1);
    return node("div", { class: "mark", role: "group", "aria-label": name }, node("span", {}, name), values.map(value =>
      node("button", {
        type: "button", "aria-pressed": String(decision(edit).marks[name] === value), onclick: () => mark(edit, name, value),
      }, String(value))));
  }

  function question({ question: asked, options, answer }) {
    return node("div", {}, node("p", { class: "question" }, foreign(asked)),
      options ? node("ol", {}, options.map(option =>
        node("li", { class: option === answer ? "right" : "" }, foreign(option), option === answer && " \u2713")))
        : node("p", { class: "right" }, foreign(answer)));
  }

  function panel() {
    const shown = review() && app.open >= 0;
    find("review").hidden = !shown;
    if (!shown) return;
    const one = of(app.open), now = decision(app.open), edit = app.open;
    const button = (value, label) => node("button", {
      type: "button", id: value, "aria-pressed": String(now.decision === value),
      onclick: () => decide(now.decision === value ? "" : value),
    }, label);
    const note = node("input", { id: "note", maxlength: "2000", placeholder: "note", "aria-label": "note", value: now.note });
    note.addEventListener("input", () => set(edit, { note: note.value.trim() }));
    find("review").replaceChildren(
      one.status ? node("p", { class: "warning" }, foreign(one.status)) : "",
      ...one.questions.map(question),
      node("dl", {}, one.notes.map(([label, text]) => [node("dt", {}, foreign(label)), node("dd", {}, foreign(text))])),
      ...one.decide ? one.marks.map(name => markRow(edit, name)) : [],
      one.decide ? node("div", { class: "decide" }, button("accept", "accept"), button("reject", "reject"), note) : "");
  }

  function save() {
    if (!review()) return;
    const { items: _, best_mark: __, ...about } = review();
    const told = [...decisions.keys()].map(saved).filter(one => one.decision);
    const text = JSON.stringify({ ...about, decisions: told }, null, 1);
    const link = node("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: "review.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function listen() {
    find("save").addEventListener("click", save);
  }

  Object.assign(app, { restoreReview: restore, reviewPanel: panel, decide, decided, saveReview: save, listenToReview: listen });
})(window.editjudge ??= {});
