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

/** What numbers and dates are formatted in: the system's language, whatever the app's own text is in. */
export const locale: string = navigator.language;
