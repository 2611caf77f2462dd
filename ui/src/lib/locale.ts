// The first import of the app. Under LANG=C the system's WebView says that its language is "C", and
// everything that formats a number or a date then throws a RangeError.

function usable(tag: string | undefined): tag is string {
  if (!tag) return false;
  try {
    new Intl.NumberFormat(tag);
    return true;
  } catch {
    return false;
  }
}

if (!usable(navigator.language)) {
  Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  Object.defineProperty(navigator, "languages", { value: ["en-US"], configurable: true });
}

/** The languages that the system is set to, the one wanted most first. */
export function systemLanguages(): readonly string[] {
  const all = navigator.languages.filter(usable);
  return all.length > 0 ? all : [navigator.language];
}

const languageOf = (tag: string) => new Intl.Locale(tag).language;

/** The first of the system's languages that is among `known`. */
export function spoken<T extends string>(known: readonly T[], system = systemLanguages()): T | undefined {
  return system.map((tag) => known.find((it) => it === languageOf(tag))).find((it) => it !== undefined);
}

/**
 * A language as it is written where the system is: its own variant of the language, else the language with the system's
 * region. Words and numbers are of one language then, and who reads English in Germany keeps the comma.
 */
export function regional(language: string, system = systemLanguages()): string {
  const own = system.find((it) => languageOf(it) === language);
  if (own) return own;
  const region = system[0] && new Intl.Locale(system[0]).region;
  return region ? `${language}-${region}` : language;
}
