// The table of results: sortable, the best numbers marked, each cell with interval and coverage.
(app => {
  "use strict";
  const { node, foreign, broken, arrow, direction, plainly } = app;

  const LEADS = { sure: "significantly the best", best: "best, but not significantly" };

  // The cells of a column span an axis, so that intervals can be compared by eye.
  function axis(rows, column) {
    const ends = rows.flatMap(({ cells }) => {
      const { value, interval: of } = cells[column];
      return [value, of?.low, of?.high].filter(each => each !== null && each !== undefined);
    });
    const [from, to] = [Math.min(...ends), Math.max(...ends)];
    const room = (to - from) * 0.06 || 1;
    return value => 100 * (value - from + room) / (to - from + 2 * room);
  }

  function interval(cell, place) {
    const { low, high } = cell.interval ?? {};
    if (low === null || low === undefined) return null;
    const bar = node("i", {}), dot = node("b", {});
    bar.style.left = `${place(low)}%`;
    bar.style.width = `${Math.max(place(high) - place(low), 1)}%`;
    dot.style.left = `${place(cell.value)}%`;
    return node("span", { class: "span", "aria-hidden": "true" }, bar, dot);
  }

  function told(cell) {
    const counts = Object.entries(cell.counts).map(([s, n]) => `${n} ${s.replace("_", " ")}`);
    const lines = [
      LEADS[cell.lead],
      cell.reason, counts.join(", "),
      cell.imputed && `${cell.imputed} imputed by a rule of the benchmark`,
      cell.capped && `${cell.capped} capped: pictures are nearly identical`,
      cell.interval && `95 % interval, by ${cell.interval.clusters} source pictures`,
      cell.sd !== null && cell.sd !== undefined &&
        `standard deviation over rounds ${app.number(cell.sd)}`,
      cell.other_items && "based on other items than the other models",
    ];
    return lines.filter(Boolean).join("\n");
  }

  function inside(cell, place) {
    const none = cell.value === null;
    const marks = `${cell.imputed || cell.capped ? "*" : ""}${cell.other_items ? "\u2021" : ""}`;
    const range = !none && cell.ends;
    return [
      node("span", { class: cell.lead || "value" },
        none ? "\u2013" : cell.text,
        cell.lead && node("span", { class: "aside" }, ` ${LEADS[cell.lead]}`),
        marks && node("sup", {}, marks)),
      range && node("span", { class: "range" }, range),
      !none && interval(cell, place),
      node("span", { class: cell.scored < cell.asked ? "coverage part" : "coverage" },
        cell.asked ? `${cell.scored}/${cell.asked}` : "not asked"),
    ];
  }

  function cellOf(table, row, column, place) {
    const cell = row.cells[column];
    const to = app.dimensionOf((table.columns[column].dimensions ?? [])[0]);
    if (to < 0) return node("td", { title: plainly(told(cell)) }, inside(cell, place));
    const model = app.names[row.model];
    return node("td", {},
      node("a", {
        class: "cell", title: `${plainly(told(cell))}\nTo these edits`,
        href: app.address({
          view: "edits", of: model, dimension: app.report.dimensions[to].id, sort: "worst",
        }),
      }, inside(cell, place)));
  }

  function ranked(table, number) {
    const [, worst, of, id] = /^(-?)(\d+)\.(.*)$/s.exec(app.state.rank) ?? [];
    const column = table.columns.findIndex(each => each.id === id);
    if (Number(of) !== number || column < 0) return { rows: table.rows, column: -1 };
    const sign = (table.columns[column].higher_is_better ? -1 : 1) * (worst ? -1 : 1);
    const rows = [...table.rows].sort((one, other) => {
      const [a, b] = [one.cells[column].value, other.cells[column].value];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (a - b);
    });
    return { rows, column, worst };
  }

  function heads(table, number, column, worst) {
    const groups = [];
    for (const { group } of table.columns) {
      if (groups.length && groups.at(-1).group === group) groups.at(-1).wide += 1;
      else groups.push({ group, wide: 1 });
    }
    const over = groups.some(({ group }) => group) && node("tr", { class: "groups" },
      node("td", {}),
      groups.map(({ group, wide }) => group
        ? node("th", { colspan: wide, scope: "colgroup" }, foreign(group))
        : node("td", { colspan: wide })));
    const titles = table.columns.map((each, index) => {
      const now = index === column;
      const ranks = [`${number}.${each.id}`, `-${number}.${each.id}`, ""];
      const next = ranks[now ? (worst ? 2 : 1) : 0];
      const mark = now ? (worst ? " \u25b4" : " \u25be") : "";
      return node("th", { scope: "col", "aria-sort": now ? (worst ? "ascending" : "descending") : "none" },
        node("button", {
          type: "button", class: "sort", "data-rank": each.id,
          title: plainly(`${each.title}: ${direction(each.higher_is_better)}\n${each.source}`),
          onclick: () => app.go({ rank: next }),
        }, broken(each.title), `\u00a0${arrow(each.higher_is_better)}`,
        node("span", { class: "mark" }, mark)));
    });
    return node("thead", {}, over, node("tr", {}, node("th", { scope: "col" }, "model"), titles));
  }

  function publishedRows(table) {
    return (table.published ?? []).flatMap(each => [
      node("tr", { class: "source" }, node("th", { scope: "rowgroup", colspan: table.columns.length + 1 },
        foreign([`Published: ${each.source}`, each.judge === "none" ? "no judge" : `judged by ${each.judge}`, each.note]
          .filter(Boolean).join("; ")))),
      Object.entries(each.models).map(([name, row]) => node("tr", { class: "published" },
        node("th", { scope: "row" }, broken(name)),
        table.columns.map(({ id, decimals }) => node("td", {}, row[id]?.toFixed(decimals) ?? "\u2013")))),
    ]);
  }

  function board(table, number) {
    const { rows, column, worst } = ranked(table, number);
    const places = table.columns.map((_, index) => axis(table.rows, index));
    const body = rows.map(row => node("tr", {},
      node("th", { scope: "row" }, broken(app.names[row.model])),
      table.columns.map((_, index) => cellOf(table, row, index, places[index]))));
    const published = publishedRows(table);
    return node("section", { class: "board", "data-table": number },
      node("h2", {}, foreign(table.title)),
      (table.about ?? []).map(line => node("p", { class: "about soft" }, foreign(line))),
      node("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${table.title}, table` },
        node("table", {}, heads(table, number, column, worst),
          node("tbody", {}, body),
          published.length > 0 && node("tbody", { class: "of-papers" }, published))),
      node("ul", { class: "notes" }, (table.notes ?? []).map(line => node("li", {}, foreign(line)))));
  }

  // Redraw all tables, which are small.
  function boards(into) {
    const at = document.activeElement?.dataset?.rank;
    const scrolled = [...into.querySelectorAll(".wide")].map(each => each.scrollLeft);
    into.replaceChildren(...app.report.tables.map(board));
    into.querySelectorAll(".wide").forEach((each, index) => { each.scrollLeft = scrolled[index] ?? 0; });
    if (at) into.querySelector(`[data-rank="${CSS.escape(at)}"]`)?.focus();
  }

  app.boards = boards;
})(window.editjudge ??= {});
