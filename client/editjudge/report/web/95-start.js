// Starts the page: views and colour theme.
(app => {
  "use strict";
  const find = id => document.getElementById(id);
  const FILTERS = ["words", "in", "of", "dimension", "status", "kind", "task", "decision", "from", "to", "sort", "a", "b"];
  let listedOnce = false;

  function views(state) {
    const edits = state.view === "edits";
    find("results").hidden = edits;
    find("explorer").hidden = !edits;
    document.body.classList.toggle("in-edits", edits);
    for (const [id, current] of [["to-results", !edits], ["to-edits", edits]]) {
      if (current) find(id).setAttribute("aria-current", "page");
      else find(id).removeAttribute("aria-current");
    }
  }

  app.onchange((state, before) => {
    const first = before.view === undefined;
    if (first || app.changed(before, "view")) views(state);
    if (state.view !== "edits") { if (app.open >= 0) opened(-1); return; }
    const now = state.edit ? app.find(state.edit, state.model, state.run) : -1;
    const turned = now !== app.open;
    astray(state, now);
    if (turned) app.open = now;
    if (first || !listedOnce || app.changed(before, ...FILTERS)) {
      listedOnce = true;
      app.controls();
      app.listed();
      app.search();
      if (!first) app.announce(find("count").textContent);
    }
    if (turned || first || app.changed(before, "show", "with")) opened(now);
  });

  // A link may refer to an edit of another page.
  function astray(state, edit) {
    find("astray").hidden = !state.edit || edit >= 0;
    find("astray").replaceChildren("There is no such edit on this page: ", app.foreign(state.edit));
  }

  function opened(edit) {
    app.open = edit;
    app.drawEdit();
    app.reveal();
    if (edit < 0) return;
    app.announce(`${find("edit-id").innerText}, ${find("edit-model").innerText}`);
    if (!find("list").offsetParent) find("back").focus({ preventScroll: true }); // the list is away
  }

  function dark() {
    const told = document.documentElement.dataset.theme;
    return told ? told === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function theme() {
    const said = dark() ? "light" : "dark";
    find("theme").textContent = `\u25d0 ${said}`;
    find("theme").setAttribute("aria-label", `change to ${said}`);
  }

  app.turnTheme = () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    app.keep("editjudge.theme", document.documentElement.dataset.theme);
    theme();
  };

  async function read() {
    const [report, edits] = await Promise.all([app.load("report"), app.load("edits")]);
    app.take(report, edits);
    app.forget();
    app.restoreReview();
    app.overview();
  }

  async function start() {
    const told = app.kept("editjudge.theme");
    if (told === "dark" || told === "light") document.documentElement.dataset.theme = told;
    app.recall();
    try {
      await read();
    } catch (error) {
      find("broken").hidden = false;
      find("broken").textContent = `This page cannot be shown: ${error.message}`;
      return;
    }
    if (app.report.review && !location.hash) app.state.view = "edits";
    theme();
    find("theme").addEventListener("click", app.turnTheme);
    for (const [id, to] of [["to-results", { view: "", edit: "" }], ["to-edits", { view: "edits" }]]) {
      find(id).addEventListener("click", event => { // filters stay
        event.preventDefault();
        app.go(to, true);
      });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
    app.listenToFilters();
    app.listenToList();
    app.listenToStage();
    app.listenToEdit();
    app.listenToReview();
    app.listenToKeys();
    find("filters").open = !matchMedia("(max-width: 56rem)").matches;
    find("app").hidden = false;
    app.begin();
    document.documentElement.dataset.ready = "";
  }

  start();
})(window.editjudge ??= {});
