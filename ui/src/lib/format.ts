// Numbers, times and places as people read them.

import type { Location } from "./bindings";
import { locale } from "./locale";
import { t } from "./strings";

const plain = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const upToOne = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
const share = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 });
const shareOne = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 1 });

export function count(value: number): string {
  return plain.format(value);
}

/** A number with as many digits as it takes to tell neighbours apart, for scores. */
export function score(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3;
  return value.toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A number on an axis: as short as it is exact. */
export function tick(value: number): string {
  return value.toLocaleString(locale, { maximumFractionDigits: 3 });
}

export function percent(value: number): string {
  return value > 0 && value < 0.01 ? shareOne.format(value) : share.format(value);
}

const UNITS = ["B", "KB", "MB", "GB", "TB"];

/** Bytes in decimal units, as file managers and disk makers count them. */
export function bytes(value: number): string {
  let unit = 0;
  let left = Math.max(0, value);
  while (left >= 999.5 && unit < UNITS.length - 1) {
    left /= 1000;
    unit += 1;
  }
  const text = unit === 0 || left >= 99.5 ? plain.format(left) : upToOne.format(left);
  return `${text}\u00a0${UNITS[unit]}`;
}

/** Memory, in the binary units that its modules are sold in. */
export function memory(value: number): string {
  const gib = value / 2 ** 30;
  return gib < 0.995 ? `${plain.format(value / 2 ** 20)}\u00a0MiB` : `${gib < 99.5 ? upToOne.format(gib) : plain.format(gib)}\u00a0GiB`;
}

/** How many in a second: with a digit behind the point where that says something. */
export function rate(value: number): string {
  return value < 99.5 ? upToOne.format(value) : plain.format(value);
}

/** A duration in milliseconds, short: "0.4 ms", "37 ms", "1.2 s", "3 min". */
export function millis(value: number): string {
  if (value === 0) return "0\u00a0ms";
  if (value < 9.95) return `${one.format(value)}\u00a0ms`;
  if (value < 999.5) return `${plain.format(value)}\u00a0ms`;
  if (value < 59_950) return `${one.format(value / 1000)}\u00a0s`;
  return `${plain.format(value / 60_000)}\u00a0min`;
}

/** Seconds that are left, as coarse as the estimate is. */
export function remaining(seconds: number): string {
  if (seconds < 50) return t.time.seconds(Math.max(5, Math.round(seconds / 5) * 5));
  if (seconds < 3300) return t.time.minutes(Math.max(1, Math.round(seconds / 60)));
  return t.time.hours(Math.max(1, Math.round(seconds / 3600)));
}

const dayAndMonth = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
const withYear = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year: "numeric" });
const full = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const clock = new Intl.DateTimeFormat(locale, { hour: "numeric", minute: "2-digit" });

/** A day, as near to "today" as it is; `now` is given by tests. */
export function day(seconds: number, now: Date = new Date()): string {
  const date = new Date(seconds * 1000);
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const behind = midnight - date.getTime();
  if (behind <= 0 && behind > -86_400_000) return t.time.today;
  if (behind > 0 && behind <= 86_400_000) return t.time.yesterday;
  return (date.getFullYear() === now.getFullYear() ? dayAndMonth : withYear).format(date);
}

export function dateTime(seconds: number): string {
  return full.format(new Date(seconds * 1000));
}

export function time(seconds: number): string {
  return clock.format(new Date(seconds * 1000));
}

/** Where in a file a passage is. */
export function place(location: Location): string {
  const { start, end, part } = location;
  if (start === null) return location.kind === "section" ? (headings(part).at(-1) ?? "") : "";
  const last = end ?? start;
  switch (location.kind) {
    case "line":
      return t.place.lines(start, last);
    case "page":
      return t.place.pages(start, last);
    case "section":
      return headings(part).at(-1) ?? t.place.paragraph(start);
    case "slide":
      return t.place.slide(start);
    case "rows":
      return t.place.rows(part, start, last);
    case "message":
      return part === "body" || part === "headers" ? t.place.mail(start) : t.place.attachment(part);
    default:
      return "";
  }
}

function headings(part: string): string[] {
  return part.split(" › ").filter(Boolean);
}
