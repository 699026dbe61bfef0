// A system: task managers as boxes, in them tasks with their gates, pools and channels.
const THREADS = [["busy_us", "busy", "B"], ["idle_us", "idle", "I"], ["blocked_us", "blocked", "X"]];
const COLUMN_WIDTH = 225;
const SHOWN_ON_WIRE = 3;

function level(bytes, system) {
  return system.counts_records ? 100 : Math.max(10, Math.min(100, Math.round((bytes / system.segment_bytes) * 10) * 10));
}

const NOTED = ["watermark_ms", "is_idle", "is_aligning", "checkpoint", "aside", "open_windows", "lag_records", "is_stopped", "gap_ns", "holds_senders", "is_finished"];

class Panel {
  constructor(film) {
    this.film = film;
    this.system = film.system;
    this.updates = [];
    this.ends = new Map();
    this.isVisible = true;
    this.element = make("section", "panel");
    this.element.dataset.system = this.system.name;
    const head = make("h2", "", this.system.name);
    this.round = head.appendChild(make("small"));
    this.board = make("div", "board");
    this.element.append(head, this.headline(), this.board);
    this.columns();
    this.wires = new Wires(this);
  }

  headline() {
    const parts = [`transport ${this.system.transport}`];
    if (this.system.throttle !== "none") parts.push(`throttle ${this.system.throttle}`);
    if (!this.system.has_credit) parts.push("no credits");
    const line = make("p", "headline", parts.join(" · "));
    for (const name of Object.keys(this.film.tree.connections)) line.append(this.connection(name));
    return line;
  }

  columns() {
    const columns = [];
    for (const task of this.system.tasks) (columns[task.column] ??= []).push(task);
    this.board.style.setProperty("--columns", columns.length);
    this.columnCount = columns.length;
    for (const tasks of columns) {
      const column = make("div", "column");
      const managers = new Map();
      for (const task of tasks) {
        if (!managers.has(task.manager)) managers.set(task.manager, column.appendChild(this.manager(task.manager)));
        managers.get(task.manager).append(this.task(task));
      }
      this.board.append(column);
    }
  }

  // Make an element say what it is when one points at it or goes to it.
  about(element, kind, name, row) {
    element.tabIndex = 0;
    element.dataset.about = kind;
    element.dataset.name = name;
    element.panel = this;
    element.row = row;
    return element;
  }

  connection(name) {
    const element = this.about(make("span", "connection"), "connections", name);
    this.updates.push((state) => {
      const wire = state.connections[name];
      const isTcp = wire.kernel_bytes !== undefined;
      const words = [`connection ${name}: `];
      if (isTcp) words.push(wire.is_writable ? "writable" : "✖ not writable", ", ", wire.auto_read ? "read" : "✖ NOT READ", `, ${wire.staged} staged, ${bytes(wire.held_bytes)} of ${bytes(wire.kernel_bytes)} in the sockets`);
      else words.push(`${wire.waiting} channels wait for their turn`);
      setText(element, words.join(""));
      setClass(element, "stopped", isTcp && !(wire.auto_read && wire.is_writable));
    });
    return element;
  }

  manager(number) {
    const box = make("div", "manager");
    box.dataset.manager = number;
    const pool = this.about(make("div", "network-pool"), "managers", String(number));
    pool.append(make("b", "", `Task manager ${number}`), " ");
    const text = make("span");
    const bar = make("span", "meter");
    const used = bar.appendChild(make("span"));
    pool.append(text, bar);
    box.append(pool);
    this.updates.push((state) => {
      const own = state.managers[number];
      const taken = own.total - own.free;
      setText(text, own.total ? `network pool ${taken}/${own.total}` : "no network pool");
      const width = own.total ? Math.round((taken / own.total) * 100) + "%" : "0";
      if (used.width !== width) used.style.width = used.width = width;
    });
    return box;
  }

  task(task) {
    const box = make("div", "task");
    box.dataset.task = task.name;
    const head = this.about(make("div", "thread"), "tasks", task.name);
    const name = head.appendChild(make("b", "", task.stages.length > 1 ? `${task.stages.join(" → ")}${task.name.slice(task.name.indexOf("["))}` : task.name));
    name.title = task.name;
    const badge = head.appendChild(make("span", "badge"));
    const bar = head.appendChild(make("span", "shares"));
    const shares = THREADS.map(([, kind]) => bar.appendChild(make("span", kind)));
    const notes = head.appendChild(make("span", "notes"));
    notes.hidden = !this.film.isEver("tasks", task.name, NOTED);
    box.append(head);
    this.updates.push((state) => {
      const own = state.tasks[task.name];
      const whole = own.busy_us + own.idle_us + own.blocked_us || 1;
      let most = 1;
      THREADS.forEach(([field], i) => {
        const width = Math.round((own[field] / whole) * 100) + "%";
        if (shares[i].width !== width) shares[i].style.width = shares[i].width = width;
        if (own[field] > own[THREADS[most][0]]) most = i;
      });
      const kind = own.is_running ? THREADS[most] : ["", "gone", "–"];
      setText(badge, `${kind[2]} ${kind[1] === "gone" ? "does not run" : kind[1]}`);
      if (badge.kind !== kind[1]) badge.className = "badge " + (badge.kind = kind[1]);
      setText(notes, notesOf(own));
    });
    for (const gate of task.gates) box.append(this.gate(gate));
    for (const partition of task.partitions) box.append(this.partition(partition));
    return box;
  }

  pool(kind, name, title) {
    const box = make("div", "pool");
    const row = new Row(make("span", "cells small"), MOST_SMALL);
    this.about(box, kind, name, row);
    const text = box.appendChild(make("span", "title", title));
    const figure = box.appendChild(make("span", "figure"));
    box.append(row.element);
    this.updates.push((state) => {
      const own = state[kind][name];
      box.hidden = own.size === 0 && own.in_use === 0;
      setText(figure, `${own.in_use} of ${own.size} in use`);
      setClass(box, "empty", own.free === 0 && own.in_use >= own.size && own.size > 0);
      const over = own.overdraft;
      const rest = Math.max(0, own.size - own.in_use - own.free);
      const items = [];
      fill(items, own.in_use - over, "pool_used", "a segment in use");
      fill(items, over, "overdraft", "a segment in use above the quota");
      fill(items, own.free, "pool_free", "a segment that the pool holds free");
      fill(items, rest, "pool_unfetched", "within the quota, not taken from the network pool");
      row.set(items);
    });
    text.title = name;
    return box;
  }

  gate(name) {
    const box = make("div", "gate");
    const edge = name.slice(0, name.lastIndexOf(":in:"));
    box.append(make("div", "side", `gate of ${edge}`), this.pool("gates", name, this.system.has_credit ? "floating" : "local pool"));
    for (const channel of this.system.channels) if (channel.gate === name) box.append(this.inRow(channel));
    return box;
  }

  partition(name) {
    const box = make("div", "partition");
    const edge = name.slice(0, name.lastIndexOf(":out:"));
    box.append(make("div", "side", `result of ${edge}`), this.pool("partitions", name, "local pool"));
    for (const channel of this.system.channels) if (channel.partition === name) box.append(this.outRow(channel));
    return box;
  }

  channelRow(channel, end, label) {
    const box = make("div", "channel " + end);
    const row = new Row(make("span", "cells"));
    this.about(box, "channels", channel.name, row);
    box.dataset.channel = channel.name;
    box.dataset.end = end;
    box.append(make("span", "label", label));
    const ends = this.ends.get(channel.name) ?? {};
    ends[end] = box;
    this.ends.set(channel.name, ends);
    return [box, row, ends];
  }

  outRow(channel) {
    const [box, row] = this.channelRow(channel, "out", `to ${channel.receiver}`);
    const figures = make("span", "figures");
    const credit = make("span", "credit");
    const backlog = make("span", "backlog");
    figures.append(credit, backlog);
    box.append(row.element, figures);
    const hasCredit = this.system.has_credit && !(channel.is_local && !this.system.counts_records);
    this.updates.push((state) => {
      const own = state.channels[channel.name];
      row.set(own.out.slice().reverse().map((item) => [item[0], level(item[2], this.system), item]));
      if (box.dataset.credit !== String(own.credit)) box.dataset.credit = own.credit;
      setText(credit, hasCredit ? `credit ${short(own.credit)}` : channel.is_local ? "local" : "");
      setText(backlog, own.backlog ? `backlog ${short(own.backlog)}` : own.is_blocked ? "blocked by a barrier" : "");
      setClass(box, "starved", hasCredit && own.credit === 0 && own.backlog > 0);
      setClass(box, "barred", own.is_blocked === 1);
    });
    return box;
  }

  inRow(channel) {
    const [box, row, ends] = this.channelRow(channel, "in", `from ${channel.sender}`);
    ends.track = make("span", "track");
    const figures = make("span");
    const flying = make("span");
    const side = make("span", "figures");
    side.append(figures, flying);
    box.append(ends.track, row.element, side);
    this.updates.push((state) => {
      const own = state.channels[channel.name];
      const items = [];
      fill(items, own.exclusive_free, "exclusive_free", "a free exclusive buffer");
      fill(items, own.floating_free, "floating_free", "a free floating buffer that the channel holds");
      for (let i = own.queue.length - 1; i >= 0; i--) items.push([own.queue[i][0], level(own.queue[i][2], this.system), own.queue[i]]);
      if (own.reading && own.reading[0] !== "none") items.push([own.reading[0] in data.kinds ? own.reading[0] : "records", 100, `the task reads it: ${own.reading[1]} records left`]);
      row.set(items);
      setClass(box, "reads", Boolean(own.reading));
      setText(figures, this.system.counts_records ? `${short(own.queued)} records queued` : `${own.queued} queued${own.is_waiting ? " · waits" : ""}`);
      setText(flying, own.on_wire > SHOWN_ON_WIRE ? `, ${short(own.on_wire)} on the wire` : "");
      setClass(box, "waits", own.is_waiting === 1);
    });
    return box;
  }

  draw(step) {
    const index = this.film.indexAt(step);
    const state = this.film.seek(index);
    if (this.drawn === index) return state;
    this.drawn = index;
    setText(this.round, ` round ${state.round.toLocaleString("en")}, ${state.t_s.toFixed(6).replace(/\.?0+$/, "")} s`);
    for (const update of this.updates) update(state);
    this.wires.draw(state);
    return state;
  }
}

function fill(items, count, kind, text) {
  for (let i = 0; i < Math.min(count, 200); i++) items.push([kind, 100, text]);
}

function short(number) {
  if (Math.abs(number) < 10000) return String(number);
  for (const [power, letter] of [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(number) >= power) return (number / power).toFixed(1).replace(/\.0$/, "") + " " + letter;
  }
  return String(number);
}

function bytes(number) {
  return number < 10000 ? `${number} B` : short(number) + "B";
}

function notesOf(own) {
  const notes = [];
  if (own.watermark_ms !== null) notes.push(`watermark ${(own.watermark_ms / 1000).toFixed(3).replace(/\.?0+$/, "")} s`);
  if (own.is_idle) notes.push("idle source");
  if (own.is_aligning) notes.push(`barriers ${own.barriers} of ${own.barriers_of}`);
  if (own.checkpoint) notes.push(`checkpoint ${own.checkpoint}`);
  if (own.aside) notes.push(`${own.aside} put aside`);
  if (own.open_windows) notes.push(`${own.open_windows} windows`);
  if (own.lag_records) notes.push(`${short(own.lag_records)} wait in its log`);
  if (own.is_stopped) notes.push("stopped by the throttle");
  if (own.gap_ns) notes.push(`a record each ${short(own.gap_ns)}ns at most`);
  if (own.holds_senders) notes.push("stops its senders");
  if (own.is_finished) notes.push("finished");
  return notes.join(" · ");
}
