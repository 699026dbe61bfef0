"use strict";
(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = { responsive: true, displayModeBar: false };

  function themed(layout) {
    const style = getComputedStyle(document.body);
    const colour = (name) => style.getPropertyValue(name).trim();
    const title = { font: { size: 13 } };
    const axis = {
      gridcolor: colour("--grid"), linecolor: colour("--line"),
      zerolinecolor: colour("--line"), tickcolor: colour("--line"),
    };
    const result = Object.assign({}, layout, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: 13, family: style.fontFamily },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    });
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis/.test(key)) {
        result[key] = Object.assign({}, axis, layout[key]);
        result[key].title = Object.assign({}, layout[key].title, title);
      }
    }
    return result;
  }

  function drawOne(id) {
    const figure = figures[id];
    Plotly.react(document.getElementById(id), figure.data, themed(figure.layout), config);
  }

  function draw() {
    Object.keys(figures).forEach(drawOne);
  }

  for (const group of document.querySelectorAll("fieldset.switch")) {
    group.addEventListener("change", (event) => {
      for (const trace of figures[group.dataset.chart].data) {
        trace.visible = trace.meta === event.target.value;
      }
      drawOne(group.dataset.chart);
    });
  }

  // Plotly and the cells of heat maps stand in the page packed: that is a fraction of their size.
  async function unpacked(element) {
    const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function start() {
    const places = document.querySelectorAll(".chart:not(.empty)");
    if (places.length === 0) return;
    if (typeof DecompressionStream === "undefined") {
      for (const place of places) place.textContent = "The charts need a browser of 2023 or later.";
      return;
    }
    const script = document.createElement("script");
    script.textContent = await unpacked(document.getElementById("plotly"));
    document.head.append(script);
    const packed = document.getElementById("packed");
    if (packed) Object.assign(figures, JSON.parse(await unpacked(packed)));
    draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  window.drawn = start();
})();
