// Numbers, sizes and times as people read them.

const NONE = "–";
const UNITS = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]];
const MOST_LETTERS = 100;

/** 1234567 -> "1.23 M". */
export function count(value) {
  if (!Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  // From the value on at which its rounding would show a thousand of the unit before.
  const unit = UNITS.find(([, amount]) => size >= 0.9995 * amount);
  if (unit && size >= 9_999.5) return `${digits(value / unit[1])} ${unit[0]}`;
  return Number.isInteger(value) ? String(value) : digits(value);
}

const digits = (value) => value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);

/** 1234567 -> "1,234,567". */
export const whole = (value) => (Number.isFinite(value) ? Math.round(value).toLocaleString("en-US") : NONE);

/** A name that a page has room for; all of it is in the element's title. */
export const short = (name) => {
  const letters = [...name];
  return letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS - 1).join("").trimEnd()}…` : name;
};

/** Bytes in units of 1024. */
export function bytes(value) {
  if (!Number.isFinite(value) || value < 0) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : digits(value)} ${units[unit]}`;
}

/** Milliseconds as the two largest units. */
export function duration(value) {
  if (!Number.isFinite(value) || value < 0) return NONE;
  if (value < 1000) return `${Math.round(value)} ms`;
  const seconds = value / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [Math.floor(seconds) % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + 2)
    .filter(([amount], index) => index === 0 || amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

const two = (value) => String(value).padStart(2, "0");

/** Milliseconds since the epoch as local time; the date is left out if it is today. */
export function time(value, now = Date.now()) {
  if (!Number.isFinite(value) || value <= 0) return NONE;
  const [at, today] = [new Date(value), new Date(now)];
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === today.toDateString() ? clock : `${date(at)} ${clock}`;
}

const date = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

/** An event time: -2^63 is the watermark before any other, 2^63 - 1 the one after the last. */
export function watermark(value, seconds = false) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return NONE;
  const number = Number(value);
  if (number <= -9e18) return "none yet";
  if (number >= 9e18) return "at the end";
  if (Math.abs(number) > 8.64e15) return String(value);
  // Event times are shown in UTC: they need not have to do with this clock.
  return new Date(number).toISOString().replace("T", " ").slice(0, seconds ? -5 : -1);
}

export const percent = (share) => (Number.isFinite(share) ? `${Math.round(100 * share)} %` : NONE);

/** "Source: a<br/>+- b<br/>   +- c" -> [{text, depth}]. */
export function chain(description) {
  return description
    .split(/<br\s*\/?>/)
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, spaces, text] = /^(\s*)(?:\+-\s*)?(.*)$/.exec(line);
      return { text: text.trim(), depth: /\+-/.test(line) ? spaces.length / 3 + 1 : 0 };
    });
}

/** The names of the operators of a node of a plan, in a line. */
export const chainText = (node) => chain(node.description).map(({ text }) => text).join(" → ");
