// Time: play, pause, steps and jumps; the keys of a player.
const player = { at: 0.5, step: -1, isPlaying: false, before: 0, panels: [], events: [], filter: "" };
const ROOMY_WIDTH = 380;
const byId = (id) => document.getElementById(id);

function render() {
  const step = Math.min(data.steps - 1, Math.floor(player.at));
  const isNew = step !== player.step;
  player.step = step;
  for (const panel of player.panels) {
    if (player.isPlaying && !panel.isVisible) continue;
    panel.draw(step);
    const whole = panel.system.round_us / data.step_us;
    const into = ((data.first_us / data.step_us + step) % whole + (player.at - step)) / whole;
    panel.wires.move(Math.min(1, into));
  }
  if (!isNew) return;
  const us = data.first_us + step * data.step_us;
  setText(byId("time"), `${(us / 1e6).toFixed(6).replace(/\.?0+$/, "")} s · ${step + 1} of ${data.steps}`);
  byId("slider").value = step;
  byId("slider").setAttribute("aria-valuetext", byId("time").shown);
  setText(byId("event"), (player.texts.get(step) ?? []).slice(0, 3).join(" · "));
  showDetails();
}

function frame(now) {
  const began = performance.now();
  if (player.isPlaying) {
    const passed = Math.min(0.1, Math.max(0, (now - player.before) / 1000));
    player.at += passed * Number(byId("speed").value);
    if (player.at >= data.steps - 0.5) {
      player.at = data.steps - 0.5;
      play(false);
    }
    render();
    flowcontrol.frames.push(performance.now() - began);
    if (flowcontrol.frames.length > 2000) flowcontrol.frames.shift();
  }
  player.before = now;
  if (player.isPlaying) requestAnimationFrame(frame);
}

function play(isPlaying) {
  if (isPlaying === player.isPlaying) return;
  if (isPlaying && player.step >= data.steps - 1) player.at = 0.5;
  player.isPlaying = isPlaying;
  const button = document.querySelector("[data-do=play]");
  button.textContent = isPlaying ? "❚❚ Pause" : "▶ Play";
  button.setAttribute("aria-pressed", isPlaying);
  if (isPlaying) {
    player.before = performance.now();
    requestAnimationFrame(frame);
  }
}

function go(step) {
  play(false);
  player.at = Math.max(0, Math.min(data.steps - 1, step)) + 0.5;
  render();
}

function chosenEvents() {
  return player.events.filter((event) => !player.filter || event.kind === player.filter);
}

function jump(direction) {
  const events = chosenEvents();
  const found = direction > 0 ? events.find((event) => event.step > player.step) : events.findLast((event) => event.step < player.step);
  if (!found) {
    play(false);
    byId("event").textContent = byId("event").shown = direction > 0 ? "No event after this round." : "No event before this round.";
    return;
  }
  go(found.step);
}

function faster(by) {
  const speed = byId("speed");
  speed.selectedIndex = Math.max(0, Math.min(speed.options.length - 1, speed.selectedIndex + by));
}

function help() {
  const dialog = byId("help");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

const ACTIONS = {
  first: () => go(0), last: () => go(data.steps - 1),
  back: () => go(player.step - 1), forward: () => go(player.step + 1),
  "event-back": () => jump(-1), "event-forward": () => jump(1),
  play: () => play(!player.isPlaying), help,
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const inField = ["SELECT", "INPUT"].includes(event.target.tagName);
  const far = event.shiftKey ? 10 : 1;
  const keys = {
    ArrowLeft: () => go(player.step - far), ArrowRight: () => go(player.step + far),
    Home: ACTIONS.first, End: ACTIONS.last, n: ACTIONS["event-forward"], p: ACTIONS["event-back"],
    "+": () => faster(1), "-": () => faster(-1), "?": help, " ": ACTIONS.play,
    ArrowUp: () => nextCell(-1), ArrowDown: () => nextCell(1),
  };
  if (inField && event.target.id !== "slider") return;
  if (event.key === " " && ["BUTTON", "SUMMARY"].includes(event.target.tagName)) return;
  if (!(event.key in keys)) return;
  if (keys[event.key]() !== false) event.preventDefault();
}

function measure() {
  for (const panel of player.panels) {
    const isNarrow = panel.element.clientWidth < panel.columnCount * COLUMN_WIDTH + (panel.columnCount - 1) * 80;
    panel.element.classList.toggle("narrow", isNarrow);
    panel.element.classList.toggle("roomy", panel.element.querySelector(".column").clientWidth >= ROOMY_WIDTH && !isNarrow);
    panel.wires.measure();
  }
  if (player.step >= 0) render();
}

function listen() {
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", ACTIONS[button.dataset.do]);
  byId("slider").addEventListener("input", (event) => go(Number(event.target.value)));
  byId("filter").addEventListener("change", (event) => (player.filter = event.target.value));
  document.addEventListener("keydown", onKey);
  const systems = byId("systems");
  systems.addEventListener("pointerover", (event) => choose(event.target, event.target.closest(".cell")));
  systems.addEventListener("focusin", (event) => choose(event.target));
  new ResizeObserver(measure).observe(systems);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.target.panel.isVisible = entry.isIntersecting;
    render();
  });
  for (const panel of player.panels) {
    panel.element.panel = panel;
    seen.observe(panel.element);
  }
}

function findEvents() {
  player.texts = new Map();
  for (const film of films) {
    for (const [round, kind, , text] of film.system.events) {
      const step = Math.max(0, Math.ceil(((round + 1) * film.system.round_us - data.first_us) / data.step_us));
      player.events.push({ step, kind, system: film.system.name });
      if (!player.texts.has(step)) player.texts.set(step, []);
      player.texts.get(step).push(films.length > 1 ? `${film.system.name}: ${text}` : text);
    }
  }
  player.events.sort((a, b) => a.step - b.step);
  for (const [kind, text] of Object.entries(data.events)) {
    const count = player.events.filter((event) => event.kind === kind).length;
    const option = make("option", "", `${text} (${count})`);
    option.value = kind;
    option.disabled = count === 0;
    byId("filter").append(option);
  }
}

flowcontrol.ready = (async () => {
  data = await unpack(byId("film").textContent);
  films = data.systems.map((system) => new Film(system));
  flowcontrol.rounds = data.steps;
  flowcontrol.go = go;
  flowcontrol.play = play;
  details.element = byId("details");
  byId("slider").max = data.steps - 1;
  player.panels = films.map((film) => new Panel(film));
  byId("systems").append(...player.panels.map((panel) => panel.element));
  byId("systems").style.setProperty("--least", Math.max(...player.panels.map((panel) => panel.columnCount * 295 - 70)) + "px");
  findEvents();
  listen();
  render();
  measure();
  document.documentElement.dataset.ready = "yes";
})();
