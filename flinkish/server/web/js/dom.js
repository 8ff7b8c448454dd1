// Elements, and a page that is drawn again without losing focus, selection, scroll positions or typed text.

const SVG = "http://www.w3.org/2000/svg";
const handlers = new WeakMap();

/** Return an element: h("p.note", {onclick: f, style: {width: "3%"}}, "text", other). Texts are never read as HTML. */
export function h(name, properties, ...children) {
  return fill(document.createElement(tag(name)), name, properties, children);
}

/** Return an element of SVG. */
export function svg(name, properties, ...children) {
  return fill(document.createElementNS(SVG, tag(name)), name, properties, children);
}

const tag = (name) => name.split(".", 1)[0];

function fill(element, name, properties, children) {
  const classes = name.split(".").slice(1);
  const own = {};
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") classes.push(...value.split(" ").filter(Boolean));
    else if (key === "style") for (const [rule, set] of Object.entries(value)) element.style.setProperty(rule, set);
    else if (key === "value") element.value = value;
    else if (key.startsWith("on")) own[key] = element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  if (classes.length) element.setAttribute("class", classes.join(" "));
  handlers.set(element, own);
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Make the host's children equal to the given ones, and keep the elements that are there already where that is possible. */
export function update(host, ...children) {
  const wanted = document.createDocumentFragment();
  wanted.append(...flat(children));
  updateChildren(host, wanted);
}

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null);
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function updateChildren(host, wanted) {
  const keyed = new Map();
  for (const child of host.children) if (keyOf(child) !== null) keyed.set(keyOf(child), child);
  let cursor = host.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = keyOf(next);
    const found = key === null ? cursor : keyed.get(key);
    if (!found || !alike(found, next)) {
      host.insertBefore(next, cursor);
    } else {
      if (found === cursor) cursor = cursor.nextSibling;
      else host.insertBefore(found, cursor);
      updateNode(found, next);
    }
  }
  while (cursor) {
    const after = cursor.nextSibling;
    cursor.remove();
    cursor = after;
  }
}

function updateNode(node, next) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== next.data) node.data = next.data;
    return;
  }
  for (const { name } of [...node.attributes]) {
    // Whether a section is open is up to the reader; styles are set as properties, which the content security policy allows.
    if (name !== "open" && name !== "style" && !next.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (name !== "open" && name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  if (node.style.cssText !== next.style.cssText) node.style.cssText = next.style.cssText;
  const [before, after] = [handlers.get(node) ?? {}, handlers.get(next) ?? {}];
  for (const key of Object.keys(before)) if (!(key in after)) node[key] = null;
  Object.assign(node, after);
  handlers.set(node, after);
  updateChildren(node, next);
}
