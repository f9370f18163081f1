// The state of the page as words in the address: filters, order and the open edit make a link.
(app => {
  "use strict";

  const NOTHING = {
    view: "", // "" the results, "edits"
    rank: "", // the column that the table is sorted by, with - before it the worst first
    words: "", in: "", // "replies": also in the replies of judges
    of: "", // model
    dimension: "", status: "", kind: "", task: "", decision: "",
    from: "", to: "", // values between
    sort: "", a: "", b: "", // "best", "worst", "gap" between a and b
    edit: "", model: "", run: "", // the open edit
    show: "", // "", "slider", "flicker", "difference"
    with: "", // what the result is compared with: "" the source, "target", or a model
  };
  const listeners = [];
  let written = null;

  const state = { ...NOTHING };

  function read() {
    const told = new URLSearchParams(location.hash.slice(1));
    for (const name of Object.keys(NOTHING)) state[name] = told.get(name) ?? NOTHING[name];
    if (state.edit) state.view = "edits";
  }

  function address(of = state) {
    const told = new URLSearchParams();
    for (const [name, value] of Object.entries(of)) {
      if (value !== NOTHING[name] && !(name === "view" && of.edit)) told.set(name, value);
    }
    return `#${told.toString().replace(/\+/g, "%20")}`;
  }

  // Change the state. With `step` the browser's "back" undoes the change.
  function go(changes, step = false) {
    const before = { ...state };
    Object.assign(state, changes);
    written = address();
    if (written !== location.hash) {
      if (step) location.hash = written;
      else history.replaceState(null, "", written);
      written = location.hash;
    }
    tell(before);
  }

  function tell(before) {
    for (const listener of listeners) listener(state, before);
  }

  addEventListener("hashchange", () => {
    if (location.hash === written) return;
    const before = { ...state };
    written = location.hash;
    read();
    tell(before);
  });

  const changed = (before, ...fields) => fields.some(name => state[name] !== before[name]);

  Object.assign(app, {
    state, go, address, changed,
    recall: read,
    begin: () => tell({}),
    onchange: listener => listeners.push(listener),
  });
})(window.editjudge ??= {});
