// Long texts, differences between texts, probabilities and prompts.
(app => {
  "use strict";
  const { node, foreign, plainly } = app;
  const SHORT = 3000; // characters of a reply that are shown at first
  const COMPARED = 600; // characters up to which two texts are compared letter by letter

  // An original text; a very long one is cut and can be expanded.
  function long(text, name) {
    const made = node("pre", { class: "text", tabindex: "0", "aria-label": name }, foreign(text.slice(0, SHORT)));
    if (text.length <= SHORT) return made;
    const more = node("button", { type: "button", class: "quiet more" },
      `show all ${text.length.toLocaleString("en-GB")} characters`);
    more.addEventListener("click", () => {
      made.replaceChildren(foreign(text));
      more.remove();
      made.focus();
    });
    return node("div", {}, made, more);
  }

  // The difference of two texts as runs: [kind, text] with kind "same", "gone" or "new".
  function compared(before, after) {
    const [a, b] = [[...before], [...after]];
    const wide = b.length + 1;
    const common = new Uint16Array((a.length + 1) * wide);
    for (let i = a.length - 1; i >= 0; i -= 1) {
      for (let j = b.length - 1; j >= 0; j -= 1) {
        common[i * wide + j] = a[i] === b[j] ? common[(i + 1) * wide + j + 1] + 1
          : Math.max(common[(i + 1) * wide + j], common[i * wide + j + 1]);
      }
    }
    const runs = [];
    const add = (kind, letter) => {
      if (runs.at(-1)?.[0] === kind) runs.at(-1)[1] += letter;
      else runs.push([kind, letter]);
    };
    let i = 0, j = 0;
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) { add("same", a[i]); i += 1; j += 1; }
      else if (j >= b.length || (i < a.length && common[(i + 1) * wide + j] >= common[i * wide + j + 1])) { add("gone", a[i]); i += 1; }
      else { add("new", b[j]); j += 1; }
    }
    return runs;
  }

  // The text that was read, compared with the target text.
  function ocr({ read, target }) {
    const rows = [["target", target], ["read", read]];
    const said = node("dl", { class: "ocr" }, rows.map(([label, text]) =>
      [node("dt", {}, label), node("dd", {}, text ? foreign(text) : node("em", {}, "nothing"))]));
    if (read === target) return node("div", {}, said, node("p", { class: "soft" }, "\u2713 the same"));
    if (read.length > COMPARED || target.length > COMPARED) return said;
    const marks = compared(target, read).map(([kind, text]) => {
      if (kind === "same") return foreign(text);
      return node(kind === "gone" ? "del" : "ins", { title: kind === "gone" ? "only in the target" : "only read" }, foreign(text));
    });
    said.append(node("dt", {}, "difference"), node("dd", { class: "marked" }, marks));
    return said;
  }

  const percent = share => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);

  // A bar for each answer; the most probable one is marked not only by colour.
  function probabilities(of, outside) {
    const shares = Object.entries(of);
    const most = Math.max(...shares.map(([, share]) => share));
    if (outside > 0) shares.push(["other answers", outside]);
    return node("table", { class: "chances" }, node("caption", { class: "aside" }, "probabilities"),
      node("tbody", {}, shares.map(([label, share]) => {
        const bar = node("i", {});
        bar.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
        return node("tr", { class: share === most ? "most" : "" },
          node("th", { scope: "row" }, foreign(label)), node("td", {}, node("span", { class: "chance" }, bar)),
          node("td", {}, percent(share)));
      })));
  }

  // A prompt as it was sent: its texts, with those from data marked, and placeholders for pictures.
  function prompt({ system, parts }, texts) {
    const made = node("pre", { class: "text prompt", tabindex: "0", "aria-label": "prompt" });
    if (system !== null && system !== undefined) {
      made.append(node("span", { class: "role" }, "system"), foreign(texts[system]), "\n",
        node("span", { class: "role" }, "user"));
    }
    for (const part of parts) {
      if (part.image) {
        const size = part.size ? ` ${part.size.join("\u00d7")}` : "";
        made.append(node("span", { class: "picture", title: plainly(part.image) }, `\u25a3 ${plainly(part.name || "picture")}${size}`));
      } else if (part.data) {
        made.append(node("mark", { title: "from the data" }, foreign(texts[part.text])));
      } else {
        made.append(foreign(texts[part.text]));
      }
    }
    return made;
  }

  Object.assign(app, { long, compared, ocr, probabilities, prompt });
})(window.editjudge ??= {});
