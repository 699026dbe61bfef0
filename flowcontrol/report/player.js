(function () {
  const player = document.getElementById("player");
  if (!player) return;
  const timeline = JSON.parse(document.getElementById("timeline").textContent);
  const slider = player.querySelector("input");
  const time = player.querySelector("output");
  const play = player.querySelector(".play");
  const places = Array.from(document.querySelectorAll("[data-slot]"), (element) => {
    const attribute = element.dataset.sets;
    return {
      set: (content) => attribute ? element.setAttribute(attribute, content) : (element.textContent = content),
      whole: attribute ? element.getAttribute(attribute) : element.textContent,
      samples: timeline.slots[element.dataset.slot],
    };
  });
  const last = timeline.times.length;
  const period = Math.max(60, Math.min(300, 15000 / last));
  let timer = null;

  function show(at) {
    slider.value = at;
    time.value = at === 0 ? "whole run" : timeline.times[at - 1];
    slider.setAttribute("aria-valuetext", time.value);
    for (const place of places) place.set(at === 0 ? place.whole : place.samples[at - 1]);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ Play";
  }

  function step() {
    const at = Number(slider.value) + 1;
    show(at);
    if (at >= last) stop();
  }

  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (Number(slider.value) >= last) show(0);
    play.textContent = "❚❚ Stop";
    timer = setInterval(step, period);
  });
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
  });
  player.querySelector(".whole").addEventListener("click", () => {
    stop();
    show(0);
  });
  player.hidden = false;

  const copy = document.querySelector("button.copy");
  if (!copy) return;
  copy.addEventListener("click", async () => {
    const command = copy.parentElement.querySelector("code");
    getSelection().selectAllChildren(command);  // where the clipboard is refused, Ctrl+C does it
    try {
      await navigator.clipboard.writeText(command.textContent);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Selected: copy it with Ctrl+C";
    }
  });
  copy.hidden = false;
})();
