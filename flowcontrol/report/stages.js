(function () {
  for (const button of document.querySelectorAll("button.opener")) {
    const rows = document.getElementById(button.getAttribute("aria-controls"));
    button.addEventListener("click", () => {
      rows.hidden = !rows.hidden;
      button.setAttribute("aria-expanded", String(!rows.hidden));
    });
  }
})();
