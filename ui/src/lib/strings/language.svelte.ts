// Which language is on screen: the one that was chosen in the settings, else the first of the system's that the app has,
// else English. What is drawn reads it through `t` and the formats, and is drawn again when it changes.

import { regional, spoken, systemLanguages } from "../locale";
import { de } from "./de";
import { en, type Strings } from "./en";

/** The languages of the app by their tag, each with its own name for itself. */
export const LANGUAGES = { en: { name: "English", strings: en }, de: { name: "Deutsch", strings: de } } satisfies Record<string, { name: string; strings: Strings }>;

export type Language = keyof typeof LANGUAGES;

const TAGS = Object.keys(LANGUAGES) as Language[];

class Chosen {
  private setting = $state.raw<() => string>(() => "system");
  private system = $state.raw(systemLanguages());

  current = $derived.by<Language>(() => {
    const wanted = this.setting();
    return TAGS.find((it) => it === wanted) ?? spoken(TAGS, this.system) ?? "en";
  });
  /** What numbers and dates are formatted in. */
  locale = $derived(regional(this.current, this.system));

  constructor() {
    window.addEventListener("languagechange", () => (this.system = systemLanguages()));
  }

  /** Takes the setting from where it is kept: `system` or a tag. */
  follow(setting: () => string) {
    this.setting = setting;
  }
}

export const language = new Chosen();
