// The open edit: its texts, pictures and verdicts.
(app => {
  "use strict";
  const { node, foreign, plainly } = app;
  const find = id => document.getElementById(id);
  const FEW = 3; // models whose results stand beside the source by themselves
  const chosen = new Set(); // names of models that are shown beside the open one
  const left = new Set(); // names of those that were put away
  let masked = null; // until somebody chooses, on where masks are reviewed
  app.open = -1;

  const withMask = () => masked ?? Boolean(app.report.review);

  const narrow = () => matchMedia("(max-width: 56rem)").matches;

  // The state that leads to an edit.
  function addressOf(edit) {
    const item = app.edits.item[edit];
    const id = app.edits.items.id[item];
    const twice = (app.places.get(id)?.length ?? 0) > 1;
    return {
      view: "edits", edit: id, model: app.names[app.edits.model[edit]],
      run: twice ? String(app.edits.items.run[item]) : "",
    };
  }

  const siblings = () => app.ofItem.get(app.edits.item[app.open]) ?? [];

  function beside() {
    const all = app.report.review ? [] : siblings();
    return all.filter(edit => {
      const name = app.names[app.edits.model[edit]];
      return edit === app.open || chosen.has(name) || name === app.state.with || (all.length <= FEW && !narrow() && !left.has(name));
    });
  }

  // The style that moves a result back onto its source by its drift; "" where no drift was measured.
  async function back(edit) {
    const detail = await app.details(edit);
    const drift = detail.edits[edit]?.verdicts.map(each => each.evidence ?? {}).find(each => each.frame && each.corners_px);
    if (!drift) return "";
    const [x, y] = drift.translation.map((by, axis) => -100 * by / drift.frame[axis]);
    return `rotate(${-drift.rotation_degrees}deg) scale(${1 / drift.zoom}) translate(${x}%, ${y}%)`;
  }

  const result = edit => ({
    name: app.edits.picture[edit], missing: app.edits.missing[edit],
    caption: app.names[app.edits.model[edit]], active: edit === app.open, back: () => back(edit),
    pick: edit === app.open ? null : () => app.go(addressOf(edit)),
  });

  // The first of two pictures that are compared.
  function against() {
    const { items } = app.edits, item = app.edits.item[app.open];
    const source = { name: items.sources[item]?.[0], caption: "source" };
    if (app.state.with === "target" && items.target[item]) return { name: items.target[item], caption: "target" };
    const other = siblings().find(edit => edit !== app.open && app.names[app.edits.model[edit]] === app.state.with);
    return other === undefined ? source : { ...result(other), pick: null };
  }

  function pictures() {
    const { items } = app.edits, item = app.edits.item[app.open];
    const sources = (items.sources[item] ?? []).map((name, index, all) =>
      ({ name, caption: all.length > 1 ? `source ${index + 1}` : "source" }));
    const target = (app.state.with === "target" || app.report.review) && items.target[item]
      ? [{ name: items.target[item], caption: "target" }] : [];
    const first = against(), second = result(app.open), { show } = app.state;
    find("alone").hidden = !show || Boolean(first.name && second.name);
    app.stage({
      side: [...sources, ...target, ...beside().map(result)], left: first, right: second, show,
      mask: withMask() ? items.mask[item] : null, region: items.mask[item],
    });
    shape(sources[0]?.name ?? app.edits.picture[app.open]);
  }

  // Frames have the shape of the source, so that a pixel has one size in all of them.
  function shape(name) {
    if (!name) return;
    const image = new Image();
    image.addEventListener("load", () =>
      app.shape(image.naturalWidth / image.naturalHeight));
    image.src = app.picture(name);
  }

  function chips() {
    const shown = new Set(beside());
    find("models").replaceChildren(...siblings().length < 2 ? [] : siblings().map(edit => {
      const name = app.names[app.edits.model[edit]];
      return node("button", {
        type: "button", class: "chip", "aria-pressed": String(shown.has(edit)), disabled: edit === app.open,
        title: edit === app.open ? "the open edit" : "show its result beside the others",
        onclick: () => {
          const [to, from] = shown.has(edit) ? [left, chosen] : [chosen, left];
          to.add(name);
          from.delete(name);
          draw();
        },
      }, foreign(name));
    }));
  }

  function controls() {
    const { items } = app.edits, item = app.edits.item[app.open];
    for (const button of document.querySelectorAll("[data-show]")) {
      button.setAttribute("aria-pressed", String(button.dataset.show === app.state.show));
    }
    const names = siblings().filter(edit => edit !== app.open).map(edit => app.names[app.edits.model[edit]]);
    const options = [["", "source"], ...items.target[item] ? [["target", "target"]] : [], ...names.map(name => [name, name])];
    find("with").replaceChildren(...options.map(([value, text]) => node("option", { value }, plainly(text))));
    find("with").value = options.some(([value]) => value === app.state.with) ? app.state.with : "";
    find("with-label").hidden = options.length < 2;
    find("mask").hidden = !items.mask[item];
    find("mask").setAttribute("aria-pressed", String(withMask()));
    find("models").hidden = app.state.show !== "";
  }

  function head() {
    const { edits, names } = app, item = edits.item[app.open];
    find("edit-id").replaceChildren(foreign(edits.items.id[item]));
    find("edit-model").replaceChildren(foreign(names[edits.model[app.open]]));
    find("edit-task").replaceChildren(foreign(edits.items.task[item] || ""));
    find("instruction").replaceChildren(foreign(app.instruction(app.open)));
    const target = edits.items.target_text[item];
    find("target-text").hidden = !target;
    find("target-text").replaceChildren("target text: ", foreign(target || ""));
  }

  async function files() {
    const edit = app.open;
    find("extra").replaceChildren();
    try {
      const detail = await app.details(edit);
      if (edit !== app.open) return;
      const item = detail.items[app.edits.item[edit]] ?? {};
      const facts = [
        ...(item.files?.sources ?? []).map(path => ["source", path]), ["mask", item.files?.mask],
        ["target", item.files?.target], ["result", detail.edits[edit]?.file], ["hint", item.hint],
        ...Object.entries(item.extra ?? {}).map(([name, value]) => [name, app.spoken(value)]),
      ].filter(([, value]) => value);
      find("extra").replaceChildren(...facts.map(([name, value]) =>
        [node("dt", {}, foreign(name)), node("dd", {}, foreign(value))]).flat());
    } catch (error) {
      find("extra").replaceChildren(node("dt", {}, "details"), node("dd", {}, `cannot be read: ${error.message}`));
    }
    find("files").hidden = !find("extra").childElementCount;
  }

  function draw() {
    const none = app.open < 0;
    document.body.classList.toggle("with-edit", !none);
    find("edit").hidden = none;
    find("unopened").hidden = !none;
    if (none) return app.stage({ side: [], show: "" });
    head();
    chips();
    controls();
    pictures();
    app.reviewPanel();
    if (app.report.review) return;
    app.verdicts(app.open, beside());
    files();
  }

  // Go to another model's result of the same item.
  function turn(by) {
    const all = siblings(), next = all[(all.indexOf(app.open) + by + all.length) % all.length];
    if (app.open >= 0 && next !== undefined) app.go(addressOf(next));
  }

  function close() {
    app.go({ edit: "", model: "", run: "" });
    find("list").focus();
  }

  function mask() {
    if (app.open < 0 || find("mask").hidden) return;
    masked = !withMask();
    controls();
    pictures();
  }

  function show(mode) {
    if (app.open < 0) return;
    app.go({ show: mode });
    find("stage").scrollIntoView({ block: "nearest" });
  }

  function listen() {
    for (const button of document.querySelectorAll("[data-show]")) {
      button.addEventListener("click", () => show(button.dataset.show));
    }
    find("with").addEventListener("change", event => app.go({ with: event.target.value }));
    find("mask").addEventListener("click", mask);
    find("back").addEventListener("click", close);
    find("before").addEventListener("click", () => app.step(-1));
    find("after").addEventListener("click", () => app.step(1));
    find("unfold").addEventListener("click", app.unfold);
    find("link").addEventListener("click", link);
  }

  async function link() {
    const done = await app.copied(location.href.split("#")[0] + app.address(addressWhole()));
    find("link").textContent = done ? "copied" : "not copied";
    setTimeout(() => { find("link").textContent = "link"; }, 1500);
  }

  // Copy a link to the open edit, without filters.
  function addressWhole() {
    const nothing = Object.fromEntries(Object.keys(app.state).map(name => [name, ""]));
    return { ...nothing, ...addressOf(app.open), show: app.state.show };
  }

  Object.assign(app, { addressOf, drawEdit: draw, turn, closeEdit: close, toggleMask: mask, show, listenToEdit: listen });
})(window.editjudge ??= {});
