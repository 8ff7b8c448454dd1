// Questions in dialogs, which the browser keeps in front and the keyboard inside; and notices.

import { h } from "./dom.js";

/** Ask for values; `fields` are [{name, label, kind: "text"|"checkbox"|"password", hint, value}]. Returns them, or null. */
export function ask({ title, text, fields = [], yes, no = "Go back", danger = false, closable = true }) {
  return new Promise((resolve) => {
    const inputs = Object.fromEntries(fields.map((field) => [field.name, input(field)]));
    let answer = null;
    const dialog = h(
      "dialog",
      { "aria-labelledby": "dialog-title", oncancel: (event) => closable || event.preventDefault() },
      h(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            answer = Object.fromEntries(
              fields.map(({ name, kind }) => [name, kind === "checkbox" ? inputs[name].checked : inputs[name].value.trim()]),
            );
            dialog.close();
          },
        },
        h("h2", { id: "dialog-title" }, title),
        text && h("p", null, text),
        fields.map((field) => labelled(field, inputs[field.name])),
        h(
          "div.buttons",
          null,
          closable && h("button", { type: "button", onclick: () => dialog.close() }, no),
          h(danger ? "button.danger" : "button.primary", { type: "submit" }, yes),
        ),
      ),
    );
    dialog.onclose = () => {
      dialog.remove();
      resolve(answer);
    };
    document.body.append(dialog);
    dialog.showModal();
  });
}

function input({ name, kind = "text", value, required, hint }) {
  const about = hint ? `hint-${name}` : null;
  const given = kind === "checkbox" ? { checked: value } : { value };
  return h("input", { id: `field-${name}`, type: kind, ...given, required, autocomplete: "off", spellcheck: "false", "aria-describedby": about });
}

function labelled({ name, label, kind, hint }, element) {
  const about = hint && h("small", { id: `hint-${name}` }, hint);
  return kind === "checkbox"
    ? h("div.field.check", null, element, h("label", { for: `field-${name}` }, label), about)
    : h("div.field", null, h("label", { for: `field-${name}` }, label), element, about);
}

/** Ask for the server's token until there is one. */
export async function askToken(wrong) {
  for (;;) {
    const answer = await ask({
      title: "Token",
      text: wrong
        ? "The server does not accept this token."
        : "This server answers only those who know its token (FLINKISH_REST_TOKEN). The page keeps the token until this tab is closed.",
      fields: [{ name: "token", label: "Token", kind: "password", required: true }],
      yes: "Continue",
      closable: false,
    });
    // A browser may close a dialog without an answer.
    if (answer) return answer.token;
  }
}

/** Do something, with a notice while it lasts and another one if it fails; return whether it has succeeded. */
export async function during(busy, failed, act) {
  const shown = notice("busy", busy);
  try {
    await act();
    return true;
  } catch (error) {
    notice("bad", failed, error.message);
    return false;
  } finally {
    shown.remove();
  }
}

/** Show a notice, which stays until it is closed if it is bad news. */
export function notice(kind, text, detail) {
  const element = h(
    `div.notice.${kind}`,
    null,
    h("p", null, text),
    detail && h("pre", null, detail),
    h("button", { type: "button", "aria-label": "Close this notice", onclick: () => element.remove() }, "×"),
  );
  document.getElementById("notices").append(element);
  if (kind === "good") setTimeout(() => element.remove(), 20_000);
  return element;
}
