// The distribution of the values of a dimension, a row for each model.
(app => {
  "use strict";
  const { node, drawn, foreign, broken, number, arrow } = app;
  const LEVELS = 12;
  const BINS = 24;
  const WIDE = 480;
  const HIGH = 40;
  const LETTER = 2.5; // width of a letter in percent of a narrow axis
  let chosen = null;

  function byModel(dimension) {
    const of = app.report.models.map(() => ({ values: [], without: 0 }));
    const values = app.edits.values[dimension] ?? [];
    app.edits.item.forEach((_, edit) => {
      const mine = of[app.edits.model[edit]];
      const value = values[edit] ?? null;
      if (value !== null) mine.values.push(value);
      else if (!"N".includes(app.letter(dimension, edit))) mine.without += 1;
    });
    return of;
  }

  // Bars: one for each value where there are few, otherwise bins of equal width.
  function bins(all) {
    const levels = [...new Set(all)].sort((one, other) => one - other);
    if (levels.length <= LEVELS) {
      const step = Math.min(...levels.slice(1).map((level, index) => level - levels[index]), 1e9);
      const room = levels.length > 1 ? step : 1;
      return {
        from: levels[0] - room / 2, to: levels.at(-1) + room / 2, ticks: levels,
        bars: levels.map(level => ({ low: level, high: level, from: level - room * 0.42, to: level + room * 0.42 })),
        of: value => levels.indexOf(value),
      };
    }
    const [from, to] = [levels[0], levels.at(-1)];
    const wide = (to - from) / BINS;
    return {
      from, to, ticks: [from, (from + to) / 2, to], whole: true,
      bars: Array.from({ length: BINS }, (_, index) => {
        const low = from + index * wide;
        return { low, high: index === BINS - 1 ? to : low + wide, from: low, to: low + wide };
      }),
      of: value => Math.min(BINS - 1, Math.floor((value - from) / wide)),
    };
  }

  const middle = sorted => {
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  };

  function bars(model, values, scale, dimension) {
    const counts = scale.bars.map(() => 0);
    for (const value of values) counts[scale.of(value)] += 1;
    const most = Math.max(...counts, 1);
    const x = value => WIDE * (value - scale.from) / (scale.to - scale.from || 1);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const shown = scale.bars.map((bar, index) => {
      const high = counts[index] ? Math.max(2, (HIGH - 2) * counts[index] / most) : 0;
      const made = drawn("rect", {
        class: "bar", x: x(bar.from) + 0.5, width: Math.max(x(bar.to) - x(bar.from) - 1, 1),
        y: HIGH - high, height: high,
      });
      const range = bar.low === bar.high ? number(bar.low) : `${number(bar.low)} to ${number(bar.high)}`;
      made.append(drawn("title", {}, `${app.counted(counts[index], "edit")}: ${range}`));
      made.addEventListener("click", () => app.go({
        view: "edits", of: app.names[model], dimension: app.report.dimensions[dimension].id,
        from: String(bar.low), to: String(bar.high), sort: "worst", status: "", kind: "", edit: "",
      }, true));
      return made;
    });
    return drawn("svg", {
      viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${app.plainly(app.names[model])}: ${counts.map((count, index) =>
        `${count} at ${number(scale.bars[index].low)}`).join(", ")}`,
    }, ...shown, drawn("line", { class: "mean", x1: x(mean), x2: x(mean), y1: 0, y2: HIGH }));
  }

  function row(model, { values, without }, scale, dimension) {
    const name = node("th", { scope: "row" }, broken(app.names[model]));
    const rest = without > 0 && node("span", { class: "soft" }, `${without} without`);
    if (!values.length) return node("tr", {}, name, node("td", {}, "\u2013"), node("td", {}, rest));
    const sorted = [...values].sort((one, other) => one - other);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return node("tr", {}, name, node("td", { class: "drawing" }, bars(model, values, scale, dimension)),
      node("td", {}, `mean ${number(mean)}`, node("br"), `median ${number(middle(sorted))}`),
      node("td", {}, `n ${values.length}`, node("br"), rest));
  }

  function axis(scale, unit) {
    const labels = [];
    let free = -Infinity; // where the next label may begin: labels of close values would overlap
    for (const tick of scale.ticks) {
      const at = 100 * (tick - scale.from) / (scale.to - scale.from || 1);
      const half = LETTER * number(tick).length / 2;
      if (at - half < free) continue;
      free = at + half + LETTER;
      const label = node("span", {}, number(tick));
      label.style.left = `${at}%`;
      labels.push(label);
    }
    const line = node("div", { class: scale.whole ? "axis whole" : "axis", "aria-hidden": "true" }, labels);
    return node("tr", {}, node("td"), node("td", {}, line), node("td", {}, unit), node("td"));
  }

  function draw(into) {
    const there = app.judged.filter(d => app.edits.values[d]?.some(value => value !== null));
    into.hidden = there.length === 0;
    if (!there.length) return into.replaceChildren();
    if (!there.includes(chosen)) [chosen] = there;
    const choice = node("select", { id: "spread-of", onchange: event => {
      chosen = Number(event.target.value);
      draw(into);
      document.getElementById("spread-of").focus();
    } }, there.map(d => node("option", { value: d, selected: d === chosen },
      app.plainly(`${app.report.dimensions[d].title} ${arrow(app.report.dimensions[d].higher_is_better)}`))));
    const of = byModel(chosen);
    const scale = bins(of.flatMap(({ values }) => values));
    const dimension = app.report.dimensions[chosen];
    into.replaceChildren(
      node("h2", {}, app.report.is_part ? "Distributions of the listed edits" : "Distributions"),
      node("p", { class: "line" }, node("label", { for: "spread-of" }, "Values of "), choice,
        node("span", { class: "soft" }, foreign(` ${dimension.asks}`))),
      node("table", { class: "spread" },
        node("tbody", {}, of.map((mine, model) => row(model, mine, scale, chosen)), axis(scale, dimension.unit))),
      node("p", { class: "soft" }, "The line is the mean. Select a bar to see its edits."));
  }

  app.distributions = draw;
})(window.editjudge ??= {});
