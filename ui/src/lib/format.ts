// Numbers, times and places in the language on screen. Who calls these while drawing is drawn again in another language.

import type { Location } from "./bindings";
import { numbers } from "./numbers";
import { language, t } from "./strings";

const now = () => numbers(language.locale);

export const count = (value: number) => now().count(value);
export const score = (value: number) => now().score(value);
export const tick = (value: number) => now().tick(value);
export const percent = (value: number) => now().percent(value);
export const bytes = (value: number) => now().bytes(value);
export const memory = (value: number) => now().memory(value);
export const rate = (value: number) => now().rate(value);
export const millis = (value: number) => now().millis(value);
export const day = (seconds: number, today?: Date) => now().day(seconds, today);
export const date = (seconds: number) => now().date(seconds);
export const dateTime = (seconds: number) => now().dateTime(seconds);
export const time = (seconds: number) => now().time(seconds);

/** A time in a film, as players show it: 0:12:31. */
export function clock(seconds: number): string {
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  return `${Math.floor(seconds / 3600)}:${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
}

/** Seconds that are left, as coarse as the estimate is. */
export function remaining(seconds: number): string {
  return coarse(seconds, t.time.seconds, t.time.minutes, t.time.hours);
}

/** Seconds that something would take, as coarse. */
export function taking(seconds: number): string {
  return coarse(seconds, t.time.takesSeconds, t.time.takesMinutes, t.time.takesHours);
}

type Say = (value: number) => string;

function coarse(seconds: number, inSeconds: Say, inMinutes: Say, inHours: Say): string {
  if (seconds < 50) return inSeconds(Math.max(5, Math.round(seconds / 5) * 5));
  if (seconds < 3300) return inMinutes(Math.max(1, Math.round(seconds / 60)));
  return inHours(Math.max(1, Math.round(seconds / 3600)));
}

/** What a stage of a search is called; one that is not known yet keeps its name. */
export function stageName(stage: string): string {
  return (t.stages as Record<string, string | undefined>)[stage] ?? stage;
}

/** What is written on a key. */
export function keyName(key: string): string {
  return (t.keys.names as Record<string, string | undefined>)[key] ?? key;
}

/** Where in a file a passage is. */
export function place(location: Location): string {
  const { start, end, part } = location;
  if (location.kind === "part") return part;
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
    case "cells":
      return part;
    case "message":
      return part === "body" || part === "headers" ? t.place.mail(start) : t.place.attachment(part);
    default:
      return "";
  }
}

function headings(part: string): string[] {
  return part.split(" › ").filter(Boolean);
}
