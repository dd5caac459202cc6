"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const off = new Set();

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const at = Number(button.dataset.case);
    const hide = !off.has(at);
    if (hide) off.add(at); else off.delete(at);
    button.setAttribute("aria-pressed", String(!hide));
    for (const part of document.querySelectorAll(".c" + at)) part.classList.toggle("off", hide);
  });
}

const shown = (value) =>
  value === null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 5 });

for (const figure of document.querySelectorAll("figure[data-panel]")) {
  const panel = data.panels.find((panel) => panel.name === figure.dataset.panel);
  const svg = figure.querySelector("svg");
  const cursor = svg.querySelector(".cursor");
  const leave = () => { tip.hidden = true; cursor.setAttribute("d", ""); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * data.width;
    const part = (x - data.left) / (data.right - data.left);
    if (part < -0.01 || part > 1.01) return leave();
    const last = panel.times.length - 1;
    const at = Math.max(0, Math.min(last, Math.round(part * last)));
    const cx = data.left + at / last * (data.right - data.left);
    cursor.setAttribute("d", `M${cx} 28V202`);
    tip.replaceChildren(document.createTextNode(shown(panel.times[at]) + " s"));
    for (const line of panel.lines) {
      if (off.has(line.case)) continue;
      const row = document.createElement("div");
      const mark = document.createElement("b");
      mark.style.background = data.colours[line.case];
      const value = at < line.values.length ? line.values[at] : null;
      row.append(mark, `${data.labels[line.case]}: ${shown(value)}`);
      tip.append(row);
    }
    tip.hidden = false;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(innerWidth - width - 4, event.clientX + 14)) + "px";
    tip.style.top = Math.max(4, Math.min(innerHeight - height - 4, event.clientY + 14)) + "px";
  });
}
