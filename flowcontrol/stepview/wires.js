// Lines between the rows of a channel, and what moves along them: data one way, credit the other.
const SVG = "http://www.w3.org/2000/svg";
const MOST_TOKENS = 16;

function hide(element, isHidden) {
  if (element.isHidden !== isHidden) element.hidden = element.isHidden = isHidden;
}

class Wires {
  constructor(panel) {
    this.panel = panel;
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("class", "wires");
    this.svg.setAttribute("aria-hidden", "true");
    this.layer = make("div", "tokens");
    this.layer.setAttribute("aria-hidden", "true");
    panel.board.append(this.svg, this.layer);
    this.lines = panel.system.channels.map((channel) => {
      const path = this.svg.appendChild(document.createElementNS(SVG, "path"));
      if (channel.is_local) path.setAttribute("class", "local");
      return { channel, path, ends: panel.ends.get(channel.name), wire: [], told: [], more: null, state: null };
    });
  }

  // Measure where each channel begins and ends; only after the page has changed its size.
  measure() {
    const board = this.panel.board.getBoundingClientRect();
    const isNarrow = this.panel.element.classList.contains("narrow");
    this.svg.setAttribute("viewBox", `0 0 ${board.width} ${board.height}`);
    for (const line of this.lines) {
      const out = line.ends.out.getBoundingClientRect();
      const into = line.ends.in.getBoundingClientRect();
      const track = line.ends.track.getBoundingClientRect();
      const at = isNarrow
        ? [track.left + 9, track.top + track.height / 2, track.right - 9, track.top + track.height / 2]
        : [out.right + 2, out.top + out.height / 2, into.left - 2, into.top + into.height / 2];
      line.at = [at[0] - board.left, at[1] - board.top, at[2] - board.left, at[3] - board.top];
      const [x0, y0, x1, y1] = line.at;
      line.path.setAttribute("d", `M${x0} ${y0}L${x1} ${y1}`);
    }
  }

  draw(state) {
    for (const line of this.lines) {
      const own = (line.state = state.channels[line.channel.name]);
      const isStarved = this.panel.system.has_credit && own.credit === 0 && own.backlog > 0 && !line.channel.is_local;
      if (line.isStarved !== isStarved) {
        line.isStarved = isStarved;
        line.path.setAttribute("class", line.channel.is_local ? "local" : isStarved ? "starved" : "");
      }
      this.tokens(line.wire, own.wire.length, line.channel.name);
      this.tokens(line.told, own.told.length, line.channel.name);
      own.wire.forEach((item, i) => {
        const kind = item[0];
        dress(line.wire[i], kind, 100, this.panel.system.counts_records && kind === "wire" ? short(item[1]) : "");
        line.wire[i].about = item;
      });
      own.told.forEach((item, i) => {
        const isCredit = item[0] === "AddCredit";
        dress(line.told[i], isCredit ? "credit" : "told", 100, isCredit ? `+${short(item[1])}` : "m");
        line.told[i].about = item;
      });
    }
  }

  tokens(found, count, name) {
    while (found.length < Math.min(count, MOST_TOKENS)) {
      const token = make("span", "token");
      token.base = "token";
      token.dataset.channel = name;
      found.push(token);
      this.layer.append(token);
    }
    for (let i = 0; i < found.length; i++) {
      if (i >= count) hide(found[i], true);
    }
  }

  // Put every token where it is, a part of a round after the state.
  move(part) {
    const round = this.panel.film.tree.round;
    for (const line of this.lines) {
      if (!line.state || !line.at) continue;
      const [x0, y0, x1, y1] = line.at;
      this.along(line.wire, line.state.wire, 5, round, part, x0, y0, x1, y1, -9);
      this.along(line.told, line.state.told, 2, round, part, x1, y1, x0, y0, 9);
    }
  }

  along(tokens, items, place, round, part, x0, y0, x1, y1, aside) {
    const latency = this.panel.system.latency_rounds;
    const length = Math.hypot(x1 - x0, y1 - y0);
    const step = 21 / Math.max(60, length);
    const count = Math.min(items.length, tokens.length, Math.max(1, Math.floor(0.92 / step)));
    for (let i = count; i < Math.min(items.length, tokens.length); i++) hide(tokens[i], true);
    for (let i = 0; i < count; i++) {
      const arrives = items[i][place];
      const gone = arrives < 0 ? 0 : (round + part - (arrives - latency)) / latency;
      // Those that wait at an end stand one behind the other.
      const share = Math.max(0.04, Math.min(Math.max(0, gone), 0.96 - i * step));
      const x = Math.round((x0 + (x1 - x0) * share) * 2) / 2;
      const y = Math.round((y0 + (y1 - y0) * share + aside) * 2) / 2;
      const token = tokens[i];
      hide(token, false);
      if (token.x !== x || token.y !== y) {
        token.x = x;
        token.y = y;
        token.style.transform = `translate(${x}px, ${y}px) translate(-50%, -50%)`;
      }
    }
  }
}
