// The list of edits; only visible rows exist, so that 10,000 edits scroll like ten.
(app => {
  "use strict";
  const { node, foreign, plainly, number, counted } = app;
  const MORE = 8; // rows beyond what is seen
  const find = id => document.getElementById(id);
  const there = new Map(); // by place in the list: its element
  let high = 84;

  function thumbnail(name, missing) {
    if (!name) return node("span", { class: "thumb none", title: plainly(missing || "no picture") }, missing ? "missing" : "\u2013");
    return node("img", { class: "thumb", src: app.picture(name), alt: "", decoding: "async", draggable: "false" });
  }

  const sourceOf = edit => app.edits.items.sources[app.edits.item[edit]]?.[0];

  const MARKS = { U: "?", F: "!", M: "\u2205", P: "\u2026", "-": "\u2013", N: "\u2013" };

  // A value with a bar on the scale of its dimension, or the reason why there is none.
  function value(dimension, edit) {
    const found = app.value(dimension, edit);
    const letter = app.letter(dimension, edit);
    if (found === null) {
      const kind = app.kind(dimension, edit);
      return node("span", { class: `status is-${app.WORDS[letter]?.replace(" ", "-")}` },
        node("b", { "aria-hidden": "true" }, MARKS[letter] ?? "?"), ` ${kind || app.WORDS[letter]}`);
    }
    return node("span", { class: "number" }, number(found, app.report.dimensions[dimension].unit),
      letter === "I" && node("sup", {}, "*"), meter(dimension, found));
  }

  function meter(dimension, found) {
    if (!app.scales[dimension]) return null;
    const [low, high] = app.scales[dimension];
    const bar = node("i", {});
    bar.style.width = `${Math.max(0, Math.min(100, 100 * (found - low) / (high - low)))}%`;
    return node("span", { class: "meter", "aria-hidden": "true" }, bar);
  }

  function tally(edit) {
    const counts = {};
    for (const d of app.judged) {
      const word = app.WORDS[app.letter(d, edit)];
      counts[word] = (counts[word] ?? 0) + 1;
    }
    return ["failed", "unscored", "pending"].filter(word => counts[word])
      .map(word => node("span", { class: `status is-${word}` }, `${counts[word]} ${word}`));
  }

  function words(edit, name) {
    const item = app.edits.item[edit];
    return node("div", { class: "words" },
      node("div", { class: "who" }, node("strong", {}, foreign(app.edits.items.id[item])), name),
      node("div", { class: "asked" }, foreign(app.instruction(edit))));
  }

  const nameOf = edit => node("span", { class: "model" }, foreign(app.names[app.edits.model[edit]]));

  function single({ edit }, dimension) {
    return [
      thumbnail(sourceOf(edit)), thumbnail(app.edits.picture[edit], app.edits.missing[edit]),
      words(edit, nameOf(edit)),
      node("div", { class: "values" }, app.decided(edit) && node("span", { class: `status is-${app.decided(edit)}` }, app.decided(edit)), dimension >= 0 && value(dimension, edit), tally(edit)),
    ];
  }

  function double({ edit, other, gap }, dimension) {
    const line = each => node("div", { class: "of" }, nameOf(each), value(dimension, each));
    return [
      thumbnail(app.edits.picture[edit], app.edits.missing[edit]),
      thumbnail(app.edits.picture[other], app.edits.missing[other]),
      words(edit, null),
      node("div", { class: "values two" }, line(edit), line(other),
        node("div", { class: "gap" }, `\u0394 ${gap > 0 ? "+" : gap < 0 ? "\u2212" : ""}${number(Math.abs(gap))}`)),
    ];
  }

  function row(index, rows, dimension) {
    const one = rows[index];
    const made = node("div", {
      class: "row", role: "option", id: `row-${index}`, "aria-posinset": index + 1, "aria-setsize": rows.length,
      "aria-selected": String(isOpen(one)),
      onclick: () => { open(index); },
    }, one.other === undefined ? single(one, dimension) : double(one, dimension));
    made.style.top = `${index * high}px`;
    return made;
  }

  const isOpen = ({ edit, other }) => app.open >= 0 && (edit === app.open || other === app.open);

  function paint() {
    const rows = app.rows(), list = find("list"), dimension = app.dimensionNow();
    const first = Math.max(0, Math.floor(list.scrollTop / high) - MORE);
    const last = Math.min(rows.length, Math.ceil((list.scrollTop + list.clientHeight) / high) + MORE);
    for (const [index, element] of there) {
      if (index >= first && index < last) continue;
      element.remove();
      there.delete(index);
    }
    for (let index = first; index < last; index += 1) {
      if (there.has(index)) continue;
      const made = row(index, rows, dimension);
      there.set(index, made);
      find("rows").append(made);
    }
  }

  // Rebuild the list from the filters; `stay` keeps the scroll position.
  function listed(stay = false) {
    const rows = app.select();
    high = matchMedia("(max-width: 40rem)").matches ? 72 : 84;
    there.clear();
    find("rows").replaceChildren();
    find("rows").style.height = `${rows.length * high}px`;
    find("count").textContent = told(rows);
    find("count-of").replaceChildren(...valuesOf());
    find("nothing").hidden = rows.length > 0;
    if (!stay) find("list").scrollTop = 0;
    paint();
    reveal();
  }

  function told(rows) {
    const all = app.edits.item.length;
    if (app.state.sort === "gap" && app.names.length > 1) return `${counted(rows.length, "item")} with values of both models`;
    return rows.length === all ? counted(all, "edit") : `${rows.length.toLocaleString("en-GB")} of ${counted(all, "edit")}`;
  }

  function valuesOf() {
    const dimension = app.report.dimensions[app.dimensionNow()];
    return dimension ? [foreign(dimension.title), ` ${app.arrow(dimension.higher_is_better)}`] : [];
  }

  const at = () => app.rows().findIndex(isOpen);

  // Mark the open edit and show its position.
  function reveal() {
    for (const [index, element] of there) {
      element.setAttribute("aria-selected", String(isOpen(app.rows()[index])));
    }
    const index = at(), list = find("list"), all = app.rows().length;
    find("where").textContent = index < 0 ? "" : `${(index + 1).toLocaleString("en-GB")} of ${all.toLocaleString("en-GB")}`;
    if (index < 0) return list.removeAttribute("aria-activedescendant");
    if (list.clientHeight) {
      const top = index * high;
      const below = top + high - list.scrollTop - list.clientHeight, above = list.scrollTop - top;
      if (Math.max(below, above) > 4 * high) list.scrollTop = top - (list.clientHeight - high) / 2;
      else if (above > 0) list.scrollTop = top;
      else if (below > 0) list.scrollTop += below;
      paint();
    }
    list.setAttribute("aria-activedescendant", `row-${index}`);
  }

  function open(index) {
    const one = app.rows()[index];
    if (!one) return;
    const changes = app.addressOf(one.edit);
    if (one.other !== undefined) changes.with = app.names[app.edits.model[one.other]];
    app.go(changes, app.open < 0);
  }

  function step(by) {
    const rows = app.rows(), now = at();
    const to = now < 0 && Number.isFinite(by) ? 0 : Math.max(now, 0) + by;
    if (rows.length) open(Math.max(0, Math.min(rows.length - 1, to)));
  }

  function listen() {
    let asked = false;
    find("list").addEventListener("scroll", () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => { asked = false; paint(); });
    }, { passive: true });
    find("list").addEventListener("keydown", event => {
      const by = { Home: -Infinity, End: Infinity, PageDown: 8, PageUp: -8 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      step(by);
    });
    addEventListener("resize", () => listed(true));
  }

  Object.assign(app, { listed, reveal, step, meter, valueOf: value, listenToList: listen });
})(window.editjudge ??= {});
