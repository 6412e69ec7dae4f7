// What a reader could not read: text beside the window, cut off, too small, or on top of other text; and numbers that are
// none. Everything folded up
// is unfolded for it.
(() => {
  document.querySelectorAll("details").forEach((it) => { it.open = true; });
  const bad = [];
  const say = (what, element) => bad.push(`${what}: "${element.textContent.trim().slice(0, 60)}"`);
  const seen = (box) => box.width > 0 && box.height > 0;
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) bad.push(`the page is ${root.scrollWidth} px wide in a window of ${innerWidth}`);
  const own = (element) => [...element.childNodes].some((it) => it.nodeType === 3 && it.data.trim());
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest("script, style, noscript, title") || !own(element)) continue;
    const box = element.getBoundingClientRect();
    if (!seen(box)) continue;
    const style = getComputedStyle(element);
    // What lies in a box of its own can be scrolled to.
    if (!element.closest(".scroll") && (box.left < -0.5 || box.right > innerWidth + 0.5)) say("beside the window", element);
    if (parseFloat(style.fontSize) === 0) continue;
    if (style.overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1) say("cut off", element);
    const svg = element.closest("svg");
    const scale = svg && svg.viewBox.baseVal.width ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    if (parseFloat(style.fontSize) * scale < 8) say(`${(parseFloat(style.fontSize) * scale).toFixed(1)} px`, element);
  }
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((it) => [it, it.getBoundingClientRect()]).filter(([, box]) => seen(box));
    texts.forEach(([text, box], index) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) say("beside its drawing", text);
      for (const [, other] of texts.slice(index + 1)) {
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (wide > 1 && high > 3) say("on top of other text", text);
      }
    });
  }
  // Words of two elements on top of each other. Of what can be scrolled, only what shows.
  const words = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, element = text.parentElement;
    if (!text.data.trim() || element.closest("script, style, noscript, title, svg")) continue;
    if (parseFloat(getComputedStyle(element).fontSize) === 0) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const frame = element.closest(".scroll")?.getBoundingClientRect();
    for (const box of range.getClientRects()) {
      const left = Math.max(box.left, frame?.left ?? box.left), right = Math.min(box.right, frame?.right ?? box.right);
      const card = element.closest("section")?.getBoundingClientRect();
      if (card && right > card.right + 0.5) say("beyond its card", element);
      if (right - left > 1 && box.height > 0) words.push({ element, left, right, top: box.top, bottom: box.bottom });
    }
  }
  words.sort((a, b) => a.top - b.top);
  words.forEach((one, index) => {
    for (let at = index + 1; at < words.length && words[at].top < one.bottom - 4; at++) {
      const other = words[at];
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      if (one.element !== other.element && wide > 1) say(`on top of "${other.element.textContent.trim().slice(0, 30)}"`, one.element);
    }
  });
  const odd = document.body.innerText.match(/\b[0-9]+\.[0-9]+e-[0-9]{2,}|\bNaN\b|\bInfinity\b/);
  if (odd) bad.push(`it says ${odd[0]}`);
  return [...new Set(bad)];
})()
