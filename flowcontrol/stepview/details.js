// What one points at: its numbers, and the rules that acted on it in the round.
const UNITS = { _us: "µs", _ms: "ms", _ns: "ns" };
const HIDDEN = new Set(["rules", "out", "wire", "queue", "told", "reading"]);
const details = { element: null, panel: null, kind: "", name: "", cell: null };

function unitOf(name) {
  for (const [end, unit] of Object.entries(UNITS)) if (name.endsWith(end)) return " " + unit;
  return "";
}

function wordsOf(name) {
  return name.replace(/_(us|ms|ns)$/, "").replace(/_/g, " ");
}

function valueOf(name, value) {
  if (value === null) return "none";
  if (name === "may_emit" && value < 0) return "any";
  if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
  if (name.startsWith("is_")) return value ? "yes" : "no";
  return typeof value === "number" ? short(value) + unitOf(name) : String(value);
}

function aboutCell(about) {
  if (!Array.isArray(about)) return about;
  if (about.length === 3) return `${about[0]} ${short(about[1])}, arrives in round ${about[2]}`;
  const [kind, records, bytes, checkpoint, marks, arrives] = about;
  const parts = [data.kinds[kind].meaning];
  if (checkpoint) parts.push(`checkpoint ${checkpoint}`);
  else parts.push(`${records} records end in it`, `${short(bytes)} bytes`);
  if (marks) parts.push(`${marks} watermarks`);
  if (arrives !== undefined) parts.push(arrives < 0 ? "waits for the sender's socket" : `arrives in round ${arrives}`);
  return parts.join("; ");
}

function sourceOf(rule, system) {
  if (rule.section !== "other") return `Flink's network stack, ${rule.section} · ${rule.source}`;
  const isThrottle = system.throttle !== "none" && /throttle/.test(rule.text);
  return isThrottle ? `${system.throttle_section} · ${system.throttle}` : `${system.section} · ${system.transport}`;
}

function showDetails() {
  if (!details.panel) return;
  const system = details.panel.system;
  const own = details.panel.film.tree[details.kind]?.[details.name];
  if (!own) return;
  const key = JSON.stringify([system.name, details.kind, details.name, details.cell && aboutCell(details.cell.about), own]);
  if (key === details.key) return;
  details.key = key;
  const box = details.element;
  const title = { tasks: "Task", gates: "Floating buffers of gate", partitions: "Buffers of result partition", channels: "Channel", managers: "Network pool of task manager", connections: "Connection" };
  const figures = make("dl");
  for (const [name, value] of Object.entries(own)) {
    if (HIDDEN.has(name)) continue;
    const pair = make("div");
    pair.append(make("dt", "", wordsOf(name)), make("dd", "", valueOf(name, value)));
    figures.append(pair);
  }
  const rules = make("ul", "rules");
  for (const name of own.rules ?? []) {
    const rule = data.rules[name];
    const line = make("li", "", rule.text + " ");
    line.dataset.rule = name;
    line.append(make("small", "", sourceOf(rule, system)));
    rules.append(line);
  }
  const head = make("h2", "", `${title[details.kind]} ${details.name} `);
  head.append(make("small", "", system.name));
  box.replaceChildren(head);
  if (details.cell) box.append(make("p", "of-cell", aboutCell(details.cell.about)));
  box.append(rules.childElementCount ? rules : make("p", "hint", "No rule acted on it in this round."), figures);
}

function choose(target, cell) {
  const place = target?.closest?.("[data-about]");
  if (!place) return;
  details.panel = place.panel;
  details.kind = place.dataset.about;
  details.name = place.dataset.name;
  mark(cell ?? null);
  showDetails();
}

function mark(cell) {
  details.cell?.classList.remove("chosen");
  details.cell = cell;
  cell?.classList.add("chosen");
}

// Up and down: the buffer beside the chosen one, in the row that has the focus.
function nextCell(step) {
  const row = document.activeElement?.row;
  if (!row?.count) return false;
  const cells = row.cells.slice(0, row.count);
  const at = cells.indexOf(details.cell);
  choose(document.activeElement, cells[(at < 0 ? (step > 0 ? 0 : cells.length - 1) : at + step + cells.length) % cells.length]);
  return true;
}
