// Where the loan bicycles are.

export interface Position {
  bicycle: string;
  latitude: number;
  longitude: number;
  at: Date;
}

/** Metres between two places on a sphere. */
export function distance(a: Position, b: Position): number {
  const radius = 6371000;
  const rad = (degrees: number) => (degrees * Math.PI) / 180;
  const x = rad(b.longitude - a.longitude) * Math.cos(rad((a.latitude + b.latitude) / 2));
  const y = rad(b.latitude - a.latitude);
  return Math.hypot(x, y) * radius;
}

/** A loan bicycle that has not moved fifty metres in three days is fetched back. */
export function isAbandoned(history: Position[]): boolean {
  const last = history[history.length - 1];
  const since = last.at.getTime() - 3 * 24 * 3600 * 1000;
  return history.filter((it) => it.at.getTime() >= since).every((it) => distance(it, last) < 50);
}
