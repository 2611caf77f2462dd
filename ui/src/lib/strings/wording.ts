// What a language's sentences are made with: its plurals, and its numbers as this system's region writes them.

import { regional } from "../locale";
import { numbers, type Numbers } from "../numbers";

/** The forms of a word by number; languages that have more than two name them. */
export type Forms = Partial<Record<Intl.LDMLPluralRule, string>> & { other: string };

export interface Wording {
  /** A whole number. */
  n: (value: number) => string;
  /** The form that goes with a number. */
  choose: (value: number, forms: Forms) => string;
  /** A number and the word that goes with it. */
  plural: (value: number, forms: Forms) => string;
  /** A place, or from one to another: "line 3", "lines 3–9". */
  span: (start: number, end: number, one: string, many: string) => string;
  /** The language's other formats. */
  numbers: () => Numbers;
}

export function wording(language: string): Wording {
  const rules = new Intl.PluralRules(language);
  const own = () => numbers(regional(language));
  const n = (value: number) => own().count(value);
  const choose = (value: number, forms: Forms) => forms[rules.select(value)] ?? forms.other;
  return {
    n,
    choose,
    plural: (value, forms) => `${n(value)} ${choose(value, forms)}`,
    span: (start, end, one, many) => (start === end ? `${one} ${n(start)}` : `${many} ${n(start)}–${n(end)}`),
    numbers: own,
  };
}
