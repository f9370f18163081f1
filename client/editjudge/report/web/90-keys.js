// The keys and their help.
(app => {
  "use strict";
  const { node } = app;
  const find = id => document.getElementById(id);

  const search = () => {
    app.go({ view: "edits" });
    find("filters").open = true;
    find("f-words").focus();
    find("f-words").select();
  };

  // Key, its label, its action, and its help text.
  const KEYS = [
    ["j", "j or \u2193", () => edits(1), "next edit"],
    ["k", "k or \u2191", () => edits(-1), "previous edit"],
    ["ArrowDown", null, () => edits(1)],
    ["ArrowUp", null, () => edits(-1)],
    ["l", "l or \u2192", () => app.turn(1), "next model, same item"],
    ["h", "h or \u2190", () => app.turn(-1), "previous model, same item"],
    ["ArrowRight", null, () => app.turn(1)],
    ["ArrowLeft", null, () => app.turn(-1)],
    ["/", "/", search, "search"],
    ["1", "1", () => app.show(""), "side by side"],
    ["2", "2", () => app.show("slider"), "slider"],
    ["3", "3", () => app.show("flicker"), "flicker"],
    ["4", "4", () => app.show("difference"), "difference"],
    [" ", "space", () => app.swap?.(), "the other picture of a flicker"],
    ["m", "m", () => app.toggleMask(), "mask on and off"],
    ["+", "+", () => app.zoom(1.5), "zoom in"],
    ["-", "\u2212", () => app.zoom(1 / 1.5), "zoom out"],
    ["0", "0", () => app.reset(), "the whole picture"],
    ["v", "v", () => app.unfold(), "open or close all verdicts"],
    ["c", "c", () => { if (app.open >= 0) find("link").click(); }, "copy a link to the edit"],
    ["r", "r", () => app.go({ view: "", edit: "" }, true), "results"],
    ["e", "e", () => app.go({ view: "edits" }, true), "edits"],
    ["t", "t", () => app.turnTheme(), "dark or light"],
    ["Escape", "Esc", () => leave(), "close"],
    ["?", "?", () => find("help").showModal(), "this help"],
  ];
  const OF_REVIEW = [
    ["a", "a", () => app.decide("accept"), "accept what was prepared"],
    ["x", "x", () => app.decide("reject"), "reject it"],
    ["u", "u", () => app.decide(""), "undecided"],
    ["n", "n", () => find("note")?.focus(), "a note about it"],
    ["s", "s", () => app.saveReview(), "save the decisions"],
  ];

  function edits(by) {
    if (app.state.view !== "edits") app.go({ view: "edits" }, true);
    app.step(by);
  }

  function leave() {
    if (app.open >= 0) app.closeEdit();
    else if (app.state.view === "edits") app.go({ view: "" }, true);
  }

  // Keys have their usual meaning in fields and selections.
  function busy(event) {
    const { target } = event;
    if (target.matches("textarea, select, input:not([type=checkbox])")) {
      if (event.key === "Escape") { target.blur(); find("list").focus(); }
      if (event.key === "Enter" && target.id === "f-words") find("list").focus();
      return true;
    }
    if (find("help").open) return true;
    return event.key === " " && target.matches("button, summary, a, input");
  }

  function listen() {
    const all = [...app.report.review ? OF_REVIEW : [], ...KEYS];
    const known = new Map(all.map(([key, , does]) => [key, does]));
    document.addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || busy(event)) return;
      const does = known.get(event.key.length === 1 ? event.key.toLowerCase() : event.key);
      if (!does || (event.key === " " && !app.swap)) return;
      if (event.key.startsWith("Arrow") && app.state.view !== "edits") return;
      event.preventDefault();
      does();
    });
    find("keys").replaceChildren(...all.filter(([, name]) => name).map(([, name, , what]) =>
      [node("dt", {}, node("kbd", {}, name)), node("dd", {}, what)]).flat());
    find("ask").addEventListener("click", () => find("help").showModal());
    find("answer").addEventListener("click", () => find("help").close());
  }

  app.listenToKeys = listen;
})(window.editjudge ??= {});
