// Numbers and times as people write them, for one locale: `format.ts` binds them to the language on screen.

const UNITS = ["B", "KB", "MB", "GB", "TB"];
const GIB = 2 ** 30;
const MIB = 2 ** 20;

export class Numbers {
  private readonly plain: Intl.NumberFormat;
  private readonly one: Intl.NumberFormat;
  private readonly upToOne: Intl.NumberFormat;
  private readonly upToThree: Intl.NumberFormat;
  private readonly exact: Intl.NumberFormat[];
  private readonly share: Intl.NumberFormat;
  private readonly shareOne: Intl.NumberFormat;
  private readonly dayAndMonth: Intl.DateTimeFormat;
  private readonly withYear: Intl.DateTimeFormat;
  private readonly full: Intl.DateTimeFormat;
  private readonly clock: Intl.DateTimeFormat;
  private readonly near: Intl.RelativeTimeFormat;

  constructor(readonly locale: string) {
    const digits = (least: number, most: number) => new Intl.NumberFormat(locale, { minimumFractionDigits: least, maximumFractionDigits: most });
    this.plain = digits(0, 0);
    this.one = digits(1, 1);
    this.upToOne = digits(0, 1);
    this.upToThree = digits(0, 3);
    this.exact = [0, 1, 2, 3].map((it) => digits(it, it));
    this.share = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 });
    this.shareOne = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 1 });
    this.dayAndMonth = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
    this.withYear = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year: "numeric" });
    this.full = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
    this.clock = new Intl.DateTimeFormat(locale, { hour: "numeric", minute: "2-digit" });
    this.near = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  }

  count = (value: number): string => this.plain.format(value);

  /** A number with as many digits as it takes to tell neighbours apart, for scores. */
  score = (value: number): string => {
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3;
    return (this.exact[digits] ?? this.plain).format(value);
  };

  /** A number on an axis: as short as it is exact. */
  tick = (value: number): string => this.upToThree.format(value);

  percent = (value: number): string => (value > 0 && value < 0.01 ? this.shareOne : this.share).format(value);

  /** Bytes in decimal units, as file managers and disk makers count them. */
  bytes = (value: number): string => {
    let unit = 0;
    let left = Math.max(0, value);
    while (left >= 999.5 && unit < UNITS.length - 1) {
      left /= 1000;
      unit += 1;
    }
    const text = unit === 0 || left >= 99.5 ? this.plain.format(left) : this.upToOne.format(left);
    return `${text}\u00a0${UNITS[unit]}`;
  };

  /** Memory, in the binary units that its modules are sold in. */
  memory = (value: number): string => {
    const gib = value / GIB;
    return gib < 0.995 ? `${this.plain.format(value / MIB)}\u00a0MiB` : `${this.rate(gib)}\u00a0GiB`;
  };

  /** How many in a second: with a digit behind the point where that says something. */
  rate = (value: number): string => (value < 99.5 ? this.upToOne : this.plain).format(value);

  /** A duration in milliseconds, short: "0.4 ms", "37 ms", "1.2 s", "3 min". */
  millis = (value: number): string => {
    if (value === 0) return "0\u00a0ms";
    if (value < 9.95) return `${this.one.format(value)}\u00a0ms`;
    if (value < 999.5) return `${this.plain.format(value)}\u00a0ms`;
    if (value < 59_950) return `${this.one.format(value / 1000)}\u00a0s`;
    return `${this.plain.format(value / 60_000)}\u00a0min`;
  };

  /** A day, as near to "today" as it is; `now` is given by tests. */
  day = (seconds: number, now: Date = new Date()): string => {
    const date = new Date(seconds * 1000);
    const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
    const behind = midnight - date.getTime();
    if (behind <= 0 && behind > -86_400_000) return this.named(0);
    if (behind > 0 && behind <= 86_400_000) return this.named(-1);
    return (date.getFullYear() === now.getFullYear() ? this.dayAndMonth : this.withYear).format(date);
  };

  /** A day and its month, without the year. */
  date = (seconds: number): string => this.dayAndMonth.format(new Date(seconds * 1000));

  dateTime = (seconds: number): string => this.full.format(new Date(seconds * 1000));

  time = (seconds: number): string => this.clock.format(new Date(seconds * 1000));

  /** "Today", "Yesterday": by themselves, so with a capital. */
  private named(days: number): string {
    const text = this.near.format(days, "day");
    return text.charAt(0).toLocaleUpperCase(this.locale) + text.slice(1);
  }
}

const made = new Map<string, Numbers>();

/** Made once for a locale: its formats cost more to make than to use. */
export function numbers(locale: string): Numbers {
  const known = made.get(locale) ?? new Numbers(locale);
  made.set(locale, known);
  return known;
}
