"use strict";
// Appended by scripts/page to a copy of a report: does what a reader does, and tells the frame around
// it what went wrong, or "ok" and the page's height.
(() => {
  const wrong = [];
  const check = (holds, words) => { if (!holds) wrong.push(words); };
  const background = () => getComputedStyle(document.body).backgroundColor;
  const isShown = (part) => getComputedStyle(part).display !== "none";

  // The relative luminance and the contrast of WCAG 2.2.
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
      const c = part / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };

  const layout = (when) => {
    const wide = document.documentElement.scrollWidth;
    check(wide <= innerWidth, `${when}: the page is ${wide} wide in a window of ${innerWidth}`);
    for (const figure of document.querySelectorAll("figure")) {
      const frame = figure.getBoundingClientRect();
      const scale = figure.querySelector("svg").getBoundingClientRect().width / 720;
      const boxes = [...figure.querySelectorAll("text")].map((text) => ({
        words: text.textContent,
        size: parseFloat(getComputedStyle(text).fontSize) * scale,
        box: text.getBoundingClientRect(),
      }));
      for (const { words, size, box } of boxes) {
        check(size >= 9, `${when}: "${words}" is ${size.toFixed(1)} pixels high`);
        const inside = box.left >= frame.left && box.right <= frame.right
          && box.top >= frame.top && box.bottom <= frame.bottom;
        check(inside, `${when}: "${words}" is cut off`);
      }
      boxes.forEach((a, at) => boxes.slice(at + 1).forEach((b) => {
        const apart = a.box.right <= b.box.left || b.box.right <= a.box.left
          || a.box.bottom - 2 <= b.box.top || b.box.bottom - 2 <= a.box.top;
        check(apart, `${when}: "${a.words}" and "${b.words}" overlap`);
      }));
    }
  };

  const theme = () => {
    const before = background();
    for (const turn of ["once", "twice"]) {
      document.getElementById("theme").click();
      for (const part of document.querySelectorAll("p, h1, h2, th, td, button, summary")) {
        const ratio = contrast(getComputedStyle(part).color, background());
        check(ratio >= 4.5, `theme ${turn}: "${part.textContent}" has a contrast of ${ratio}`);
      }
      check((background() === before) === (turn === "twice"), `theme ${turn}: ${background()}`);
    }
  };

  const hover = (figure, part) => {
    const svg = figure.querySelector("svg");
    svg.scrollIntoView({ block: "center" });
    const box = svg.getBoundingClientRect();
    const at = { clientX: box.left + box.width * part, clientY: box.top + box.height / 2 };
    svg.dispatchEvent(new PointerEvent("pointermove", { ...at, bubbles: true }));
    return document.getElementById("tip");
  };

  const pointer = () => {
    for (const figure of document.querySelectorAll("figure[data-panel]")) {
      for (const part of [0.1, 0.5, 0.97]) {
        const tip = hover(figure, part);
        const box = tip.getBoundingClientRect();
        check(!tip.hidden && /^[\d,.]+ s/.test(tip.textContent), `no moment: ${tip.textContent}`);
        check(/: [\d–]/.test(tip.textContent), `no values: ${tip.textContent}`);
        check(box.left >= 0 && box.right <= innerWidth, `values at ${part} are outside`);
      }
      figure.querySelector("svg").dispatchEvent(new PointerEvent("pointerleave"));
      check(document.getElementById("tip").hidden, "the values stay when the pointer leaves");
    }
    for (const cell of document.querySelectorAll("figure:not([data-panel]) g")) {
      check(/calls per second.*%/.test(cell.querySelector("title").textContent), "a silent cell");
    }
  };

  const legend = () => {
    for (const button of document.querySelectorAll(".legend button")) {
      const name = button.textContent;
      const lines = [...document.querySelectorAll(`path.c${button.dataset.case}`)];
      const figure = document.querySelector("figure[data-panel]");
      const isNamed = () => [...hover(figure, 0.5).querySelectorAll("div")]
        .some((row) => row.textContent.startsWith(`${name}:`));
      check(lines.length > 0 && lines.every(isShown) && isNamed(), `${name} is not shown`);
      button.click();
      check(button.getAttribute("aria-pressed") === "false", `${name} is pressed`);
      check(!lines.some(isShown) && !isNamed(), `${name} cannot be hidden`);
      button.click();
      check(lines.every(isShown) && isNamed(), `${name} does not come back`);
    }
    document.getElementById("tip").hidden = true;
  };

  check(document.querySelectorAll("figure").length > 0, "no plots");
  layout("first");
  theme();
  pointer();
  legend();
  scrollTo(0, 0);
  const height = document.documentElement.scrollHeight;
  document.querySelector("details").open = true;
  layout("with all numbers");
  check(document.documentElement.scrollWidth === innerWidth, `a window of ${innerWidth}`);
  parent.postMessage(wrong.length ? [...new Set(wrong)].slice(0, 40).join("\n") : `ok, ${height}`, "*");
})();
