// Helpers: elements, untrusted text, number formats, and the browser's storage.
(app => {
  "use strict";

  // The children of lists in lists, without those that are nothing.
  const parts = children => children.flat(Infinity).filter(child => child || child === 0);

  // Make an element. Attributes that begin with "on" are listeners; null and false are left out.
  // Children may be lists of children; strings become text, never markup.
  function node(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "class") made.className = value;
      else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...parts(children));
    return made;
  }

  const SVG = "http://www.w3.org/2000/svg";

  function drawn(tag, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // Invisible characters, such as controls and marks of direction, which are shown by their code.
  const UNSEEN =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]/g;

  // Untrusted text as nodes: invisible characters are shown, and marks of direction have no effect.
  function foreign(text) {
    const made = node("bdi", { dir: "auto" });
    let from = 0;
    for (const match of text.matchAll(UNSEEN)) {
      made.append(text.slice(from, match.index));
      const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      made.append(node("span", { class: "unseen" }, `U+${code}`));
      from = match.index + 1;
    }
    made.append(text.slice(from));
    return made;
  }

  // Untrusted text as plain text, for attributes and options.
  const plainly = text => text.replace(UNSEEN, "\u00b7");

  // A long name with places where a line may break.
  function broken(name) {
    return node("bdi", { class: "name" }, name.split(/(?<=[._/-])/).flatMap((part, index) =>
      [index > 0 && node("wbr"), foreign(part)]));
  }

  // Format a number: four significant digits, or two decimals with a unit.
  function number(value, unit = "") {
    if (unit) return `${value.toFixed(2)} ${unit}`;
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  }

  const counted = (count, one, many = `${one}s`) =>
    `${count.toLocaleString("en-GB")} ${count === 1 ? one : many}`;

  const arrow = higher => (higher ? "\u2191" : "\u2193");

  const direction = higher => (higher ? "higher is better" : "lower is better");

  function kept(key) {
    try { return localStorage.getItem(key); } catch { return null; }
  }

  // The browser may refuse to store values; the page works without them.
  function keep(key, value) {
    try { localStorage.setItem(key, value); } catch { /* a private window */ }
  }

  // A button that copies a text and confirms it.
  function copier(label, text) {
    const button = node("button", { type: "button", class: "quiet", title: plainly(text) }, label);
    button.addEventListener("click", async () => {
      button.textContent = (await copied(text)) ? "copied" : "could not be copied";
      setTimeout(() => { button.textContent = label; }, 1500);
    });
    return button;
  }

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = node("textarea", { class: "aside" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy"); // where a page from a file has no clipboard
      area.remove();
      return done;
    }
  }

  // Announce a change to screen readers.
  function announce(text) {
    document.getElementById("said").textContent = text;
  }

  Object.assign(app, {
    parts, node, drawn, foreign, broken, plainly, number, counted, arrow, direction, kept, keep, copied, copier,
    announce,
  });
})(window.editjudge ??= {});
