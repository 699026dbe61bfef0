// Rows of cells: elements are made once and changed only where something is different.
const MOST_CELLS = 14;
const MOST_SMALL = 24;

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function setText(element, text) {
  if (element.shown !== text) element.textContent = element.shown = text;
}

function setClass(element, name, isOn) {
  if (element["is " + name] !== isOn) {
    element["is " + name] = isOn;
    element.classList.toggle(name, isOn);
  }
}

// Dress an element as a cell of a kind: colour by data-buffer, pattern by class, letter as text.
function dress(cell, kind, level, note) {
  const key = kind + level + note;
  if (cell.key === key) return;
  cell.key = key;
  const own = data.kinds[kind];
  if (cell.dataset.buffer !== kind) {
    cell.dataset.buffer = kind;
    cell.className = cell.base + " " + own.pattern;
  }
  cell.textContent = note || own.letter;
  cell.style.setProperty("--level", level + "%");
}

class Row {
  constructor(element, most = MOST_CELLS) {
    this.element = element;
    this.most = most;
    this.cells = [];
    this.more = null;
    this.count = 0;
    this.shown = [];
  }

  // Show items, each [kind, level in %, what it is], the last one at the right end.
  set(items) {
    const hidden = Math.max(0, items.length - this.most);
    this.shown = hidden ? items.slice(hidden) : items;
    while (this.cells.length < this.shown.length) {
      const cell = make("span", "cell");
      cell.base = "cell";
      this.cells.push(cell);
      this.element.append(cell);
    }
    this.shown.forEach((item, i) => {
      const cell = this.cells[i];
      if (cell.hidden) cell.hidden = false;
      cell.about = item[2];
      dress(cell, item[0], item[1], "");
    });
    for (let i = this.shown.length; i < this.count; i++) this.cells[i].hidden = true;
    this.count = this.shown.length;
    if (hidden || this.more) {
      if (!this.more) this.element.prepend((this.more = make("span", "more")));
      setText(this.more, hidden ? "+" + hidden : "");
    }
  }
}
