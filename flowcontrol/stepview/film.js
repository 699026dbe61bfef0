// The states: unpacked once, then any round by the nearest state that is kept and the changes since.
const flowcontrol = (window.flowcontrol = { frames: [] });
const KEPT_EVERY = 50;

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// The rounds of one system, as figures by number.
class Film {
  constructor(system) {
    this.system = system;
    this.paths = system.film.paths;
    this.changes = system.film.rounds;
    this.kept = [];
    const now = system.film.first.slice();
    this.kept.push(now.slice());
    this.changes.forEach((change, index) => {
      Film.apply(now, change);
      if ((index + 1) % KEPT_EVERY === 0) this.kept.push(now.slice());
    });
    this.length = this.changes.length + 1;
    this.places = this.paths.map((path) => path.join("\u0000"));
    this.tree = this.treeOf(this.kept[0]);
    this.owners = this.paths.map((path) => path.slice(0, -1).reduce((found, key) => found[key], this.tree));
    this.values = this.kept[0].slice();
    this.at = 0;
  }

  static apply(values, change) {
    for (let i = 0; i < change.length; i += 2) values[change[i]] = change[i + 1];
  }

  treeOf(values) {
    const found = {};
    this.paths.forEach((path, number) => {
      let place = found;
      for (const key of path.slice(0, -1)) place = place[key] ??= {};
      place[path[path.length - 1]] = values[number];
    });
    for (const kind of ["tasks", "gates", "partitions", "channels", "managers", "connections"]) found[kind] ??= {};
    return found;
  }

  valuesAt(index) {
    const from = Math.floor(index / KEPT_EVERY);
    const values = this.kept[from].slice();
    for (let i = from * KEPT_EVERY; i < index; i++) Film.apply(values, this.changes[i]);
    return values;
  }

  // The tree of a round, which lives on: a later call changes it.
  seek(index) {
    if (index === this.at) return this.tree;
    if (index === this.at + 1) {
      const change = this.changes[this.at];
      for (let i = 0; i < change.length; i += 2) this.put(change[i], change[i + 1]);
    } else {
      this.valuesAt(index).forEach((value, number) => {
        if (value !== this.values[number]) this.put(number, value);
      });
    }
    this.at = index;
    return this.tree;
  }

  put(number, value) {
    this.values[number] = value;
    const path = this.paths[number];
    this.owners[number][path[path.length - 1]] = value;
  }

  // Whether one of some figures of a thing is ever something.
  isEver(kind, name, figures) {
    const own = new Set();
    this.paths.forEach((path, number) => {
      if (path[0] === kind && path[1] === name && figures.includes(path[2])) own.add(number);
    });
    const isSet = (number, value) => own.has(number) && Boolean(value);
    if (this.kept[0].some((value, number) => isSet(number, value))) return true;
    return this.changes.some((change) => change.some((number, i) => i % 2 === 0 && isSet(number, change[i + 1])));
  }

  // Index of the last round that has ended at a step of the page.
  indexAt(step) {
    const us = data.first_us + step * data.step_us;
    const index = Math.floor(us / this.system.round_us) - 1 - this.system.first;
    return Math.max(0, Math.min(this.length - 1, index));
  }
}

let data = null;
let films = [];

function named(fields, item) {
  return Object.fromEntries(fields.map((field, i) => [field, item[i]]));
}

// The state shown at a step: plain JSON, the items of lists by the names of their fields.
flowcontrol.state = (step) => {
  const systems = {};
  for (const film of films) {
    const found = structuredClone(film.treeOf(film.valuesAt(film.indexAt(step))));
    for (const channel of Object.values(found.channels)) {
      for (const [name, fields] of Object.entries(data.lists)) channel[name] = channel[name].map((item) => named(fields, item));
    }
    systems[film.system.name] = found;
  }
  return { round: step, t_s: (data.first_us + step * data.step_us) / 1e6, systems };
};
