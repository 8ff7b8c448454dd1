// Finds texts without contrast, controls without names, and other things that readers cannot use; returns sentences.
const found = [];
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colour = (text) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (front, back) => front.slice(0, 3).map((value, index) => value * front[3] + back[index] * (1 - front[3])).concat(1);
const ground = (element) => {
  const layers = [];
  for (let each = element; each; each = each.parentElement) layers.push(colour(getComputedStyle(each).backgroundColor));
  return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255, 1]);
};
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((value) => value / 255).map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const contrast = (a, b) => {
  const [more, less] = [light(a), light(b)].sort((x, y) => y - x);
  return (more + 0.05) / (less + 0.05);
};
const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
for (const element of document.body.querySelectorAll("*")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !shown(element) || element.closest("script, title, caption, .skip")) continue;
  const style = getComputedStyle(element);
  const back = ground(element);
  const front = over(colour(element instanceof SVGElement ? style.fill : style.color), back);
  const ratio = contrast(front, back);
  if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)} of <${element.localName} class="${element.getAttribute("class") ?? ""}"> ${element.textContent.slice(0, 40)}`);
}
const named = (element) =>
  element.getAttribute("aria-label") ||
  (element.getAttribute("aria-labelledby") && document.getElementById(element.getAttribute("aria-labelledby"))?.textContent) ||
  [...(element.labels ?? [])].map((label) => label.textContent).join("") ||
  (["A", "BUTTON", "SUMMARY"].includes(element.tagName) && element.textContent.trim());
for (const element of document.querySelectorAll("a, button, input, select, textarea, summary, [role], nav, dialog")) {
  if (["status", "log", "alert"].includes(element.getAttribute("role"))) continue;
  if (shown(element) && !named(element)) found.push(`no name: ${element.outerHTML.slice(0, 120)}`);
}
const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) found.push(`id twice: ${id}`);
for (const image of document.images) if (!image.hasAttribute("alt")) found.push(`no alt: ${image.src}`);
for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) found.push("a tab order of its own");
for (const element of document.querySelectorAll("[aria-describedby]")) {
  if (!element.getAttribute("aria-describedby").split(" ").every((id) => document.getElementById(id))) found.push(`described by nothing: ${element.outerHTML.slice(0, 120)}`);
}
for (const box of document.querySelectorAll("*")) {
  const scrolls = box.scrollWidth > box.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
  const inside = box.querySelector("a, button, input, select");
  if (scrolls && box.tabIndex < 0 && !inside) found.push(`scrolls, but not by keys: ${box.className}`);
}
if (document.querySelectorAll("main").length !== 1) found.push("not one main part");
if (!document.documentElement.lang) found.push("no language");
if (!document.title) found.push("no title");
const levels = [...document.querySelectorAll("h1, h2, h3")].filter(shown).map(({ tagName }) => Number(tagName[1]));
if (document.querySelector("dialog[open]")) levels.length = 0;
else if (levels[0] !== 1 || levels.filter((level) => level === 1).length !== 1) found.push(`headings: ${levels}`);
return found;
