// All verdicts of an edit, with prompts, replies and evidence.
(app => {
  "use strict";
  const { node, foreign, broken, plainly, arrow, direction } = app;
  const find = id => document.getElementById(id);
  const wide = new Set(); // dimensions that are open; they stay so from edit to edit

  // Evidence that the page shows in fields of its own.
  const TOLD = new Set(["read", "probabilities", "outside"]);

  function spoken(value) {
    return typeof value === "string" ? value : value === null ? "none" : JSON.stringify(value, null, 1);
  }

  function evidence(of) {
    const rows = Object.entries(of ?? {}).filter(([name]) => !TOLD.has(name) || of[name] === null);
    if (!rows.length) return null;
    return node("details", {}, node("summary", {}, "evidence"),
      node("dl", { class: "evidence" }, rows.map(([name, value]) =>
        [node("dt", {}, foreign(name)), node("dd", {}, foreign(spoken(value)))])));
  }

  function tokens({ prompt_tokens: asked, cached_tokens: cached, completion_tokens: said, cost }) {
    const parts = [
      asked && `${asked} prompt tokens${cached ? ` (${cached} cached)` : ""}`,
      said && `${said} generated`, cost && `cost ${app.number(cost)}`,
    ].filter(Boolean);
    return parts.length > 0 && node("span", { class: "soft" }, parts.join(", "));
  }

  // The text of a reply; nothing if it has none.
  const words = reply => typeof reply?.text === "string" ? reply.text : undefined;

  // The complete reply where it holds more than its text.
  function more(reply) {
    const { text, finish, ...rest } = Object(reply);
    const ended = finish === undefined || finish === null || finish === "stop";
    const whole = typeof text === "string" && ended && Object.keys(rest).length === 0;
    return whole || reply === null ? "" : JSON.stringify(reply, null, 1);
  }

  function reply(call, place, all, detail) {
    const text = words(call.reply), raw = more(call.reply), prompt = detail.prompts[call.prompt];
    return node("section", { class: "reply" },
      node("h4", {}, all > 1 ? `reply ${place + 1} of ${all}, ` : "reply of ",
        foreign(call.model || call.judge || "a service"), " ", tokens(call)),
      text !== undefined && app.long(text, "reply"),
      raw && (text === undefined ? app.long(raw, "reply")
        : node("details", {}, node("summary", {}, "complete reply"), app.long(raw, "complete reply"))),
      prompt && node("details", {}, node("summary", {}, "prompt as sent"),
        app.prompt(prompt, detail.texts),
        node("dl", { class: "evidence" },
          node("dt", {}, "judge"), node("dd", {}, foreign(call.judge || "a service")),
          node("dt", {}, "form and sampling"), node("dd", {}, foreign(detail.texts[call.form])))));
  }

  function signature(verdict, detail) {
    const text = detail.texts[verdict.signature];
    const versions = detail.texts[verdict.versions];
    return node("p", { class: "line" },
      text && app.copier("copy signature", text), versions && app.copier("copy versions", versions));
  }

  const WHY = {
    M: "There is no output to judge.", P: "Not judged yet.", "-": "No available service judges this.",
    N: "The dimension does not apply to this edit.",
  };

  function unasked(dimension) {
    const missing = app.edits.missing[app.open];
    const letter = app.letter(dimension, app.open);
    return node("div", { class: "told" },
      node("p", { class: "question" }, foreign(app.report.dimensions[dimension].asks)),
      node("p", { class: "reason" }, WHY[letter] ?? "Nothing is stored of this one.",
        letter === "M" && missing && foreign(` ${missing}`)));
  }

  const areShares = each => each && typeof each === "object" && Object.keys(each).length > 0
    && Object.values(each).every(Number.isFinite);

  const targetText = () => app.edits.items.target_text[app.edits.item[app.open]] ?? "";

  // The evidence of one verdict.
  function told(verdict, detail, dimension) {
    if (!verdict) return unasked(dimension);
    const { reason } = verdict;
    const of = verdict.evidence ?? {};
    const calls = verdict.calls.map(number => detail.calls[number]);
    const question = typeof of.question === "string" ? of.question : app.report.dimensions[dimension].asks;
    const alone = (calls.length === 1 && calls[0].reply) || {};
    const shares = [of.probabilities, alone.probabilities].find(areShares);
    return node("div", { class: "told" },
      node("p", { class: "question" }, foreign(question)),
      reason && node("p", { class: "reason" }, foreign([verdict.kind, reason].filter(Boolean).join(": "))),
      verdict.imputed && node("p", { class: "reason" }, "Set by a rule of the benchmark, not by a judge."),
      shares && app.probabilities(shares, alone.outside),
      typeof of.read === "string" && app.ocr({ read: of.read, target: targetText() }),
      calls.map((each, place) => reply(each, place, calls.length, detail)),
      evidence(of), signature(verdict, detail));
  }

  // One dimension: its values for the models shown, and on opening the evidence of the active one.
  function line(dimension, edits, active) {
    const { title, asks, higher_is_better: higher, unit } = app.report.dimensions[dimension];
    const body = node("div", { class: "body" });
    const made = node("details", { class: "verdict", "data-dimension": app.report.dimensions[dimension].id },
      node("summary", {},
        node("span", { class: "what", title: plainly(`${asks}\n${direction(higher)}${unit ? `, in ${unit}` : ""}`) },
          broken(title), `\u00a0${arrow(higher)}`),
        edits.map(edit => node("span", { class: edit === active ? "one active" : "one" }, app.valueOf(dimension, edit)))),
      body);
    const fill = async () => {
      if (body.childElementCount) return;
      try {
        const detail = await app.details(active);
        const found = detail.edits[active]?.verdicts.find(each => each.dimension === dimension);
        body.replaceChildren(told(found, detail, dimension));
      } catch (error) {
        body.replaceChildren(node("p", { class: "reason" }, `cannot be read: ${error.message}`));
      }
    };
    made.addEventListener("toggle", () => {
      if (!made.open) { wide.delete(dimension); return; }
      wide.add(dimension);
      fill();
    });
    made.open = wide.has(dimension);
    return made;
  }

  // Dimensions without a verdict, by reason.
  function others(rest, edit) {
    const by = new Map();
    for (const d of rest) {
      const word = app.WORDS[app.letter(d, edit)];
      by.set(word, [...(by.get(word) ?? []), app.report.dimensions[d].title]);
    }
    return [...by].map(([word, titles]) => node("details", { class: "line" },
      node("summary", {}, `${titles.length} ${word}`),
      node("p", { class: "soft" }, foreign(titles.join(", ")))));
  }

  function verdicts(active, shown) {
    const all = app.report.dimensions.map((_, d) => d);
    const asked = all.filter(d => shown.some(edit => !"N-".includes(app.letter(d, edit))));
    const rest = all.filter(d => !asked.includes(d));
    const place = find("verdicts");
    place.style.setProperty("--models", shown.length);
    place.replaceChildren(
      node("div", { class: "verdict heads", "aria-hidden": "true" }, node("span", {}, "dimension"),
        shown.map(edit => node("span", { class: edit === active ? "one active" : "one" },
          foreign(app.names[app.edits.model[edit]])))),
      ...asked.map(d => line(d, shown, active)), ...others(rest, active));
  }

  // Open all verdicts, or close them if all are open.
  function unfold() {
    const each = [...find("verdicts").querySelectorAll("details.verdict")];
    const open = each.some(one => !one.open);
    for (const one of each) one.open = open;
  }

  Object.assign(app, { verdicts, unfold, words, spoken });
})(window.editjudge ??= {});
