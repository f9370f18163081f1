// The results: warnings, tables, figures, and facts about the runs.
(app => {
  "use strict";
  const { node, foreign, parts } = app;

  function shownIn(id, ...children) {
    const place = document.getElementById(id);
    const there = parts(children);
    place.replaceChildren(...there);
    place.hidden = there.length === 0;
  }

  function figure({ title, note, svg }) {
    return node("figure", {},
      node("img", {
        src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, alt: app.plainly(title),
      }),
      node("figcaption", {}, foreign(title), note && node("span", { class: "soft" }, foreign(` ${note}`))));
  }

  function fact(label, value) {
    if (value === null || value === undefined || value === "" || value.length === 0) return [];
    return [node("dt", {}, label), node("dd", {}, foreign(String(value)))];
  }

  function run(each) {
    const services = Object.entries(each.services ?? {});
    return node("details", { class: "run" },
      node("summary", {}, foreign(each.name), node("span", { class: "soft" }, foreign(` ${each.protocol}`))),
      node("dl", {},
        fact("benchmark", each.title), fact("protocol", each.protocol),
        fact("switches", each.switches?.join(", ")), fact("items", each.items),
        fact("prompts", each.prompts && `in ${each.prompts} words`),
        fact("judges", each.judges?.join(", ")), fact("rounds", each.rounds > 1 ? each.rounds : ""),
        fact("data", each.data), fact("started", each.created), fact("editjudge", each.editjudge),
        services.map(([role, identity]) => fact(role, identity))));
  }

  // The legend of the tables.
  function legend(tables) {
    const cells = tables.flatMap(({ rows }) => rows.flatMap(row => row.cells));
    const any = holds => cells.some(holds);
    return [
      any(cell => Number.isFinite(cell.interval?.low)) && "The range and the bar are a 95 % interval of the mean, clustered by source picture.",
      "The fraction is the coverage: edits with a number, of the edits that the column asks about.",
      any(cell => cell.imputed || cell.capped) && "* some numbers were imputed by a rule or capped.",
      any(cell => cell.other_items) && "\u2021 based on other items than the other models.",
      "\u2191 higher is better, \u2193 lower is better. Select a cell to see its edits.",
    ].filter(Boolean).join(" ");
  }

  function overview() {
    const { report } = app;
    document.title = app.plainly(report.title);
    document.getElementById("title").replaceChildren(foreign(report.title));
    shownIn("introduction", report.introduction.map(({ heading, text }) =>
      [heading && node("h2", {}, foreign(heading)), node("p", {}, foreign(text))]));
    shownIn("warnings", report.warnings.map(line => node("li", {}, foreign(line))));
    app.boards(document.getElementById("boards"));
    shownIn("legend", report.tables.length > 0 && legend(report.tables));
    shownIn("figures", report.figures.length > 0 && [
      node("h2", {}, "Figures"), node("div", { class: "figures" }, report.figures.map(figure)),
    ]);
    shownIn("runs", report.runs.length > 0 && [
      node("h2", {}, report.runs.length === 1 ? "The run" : "The runs"), report.runs.map(run),
    ]);
    document.getElementById("made").textContent =
      `Made by editjudge ${report.editjudge}, ${report.made.replace("T", " ").slice(0, 16)}`
      + `${app.mode() === "file" ? ". This page is self-contained: it loads nothing." : "."}`;
    document.getElementById("to-edits").textContent = `Edits ${app.edits.item.length.toLocaleString("en-GB")}`;
    app.distributions(document.getElementById("distributions"));
  }

  app.onchange((state, before) => {
    if (before.view !== undefined && app.changed(before, "rank")) {
      app.boards(document.getElementById("boards"));
      const { rank } = state;
      app.announce(rank ? `sorted by ${rank.replace(/^-?\d+\./, "")}, ${rank[0] === "-" ? "worst" : "best"} first` : "in the order of the run");
    }
  });

  Object.assign(app, { overview });
})(window.editjudge ??= {});
