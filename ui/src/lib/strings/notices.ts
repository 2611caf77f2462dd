// What the engine tells comes as a kind and its fields, and each language has a sentence for every kind:
//
//     type Notice = { kind: "filesSkipped"; files: number } | { kind: "diskFull" };
//     const notices: Sentences<Notice> = { filesSkipped: ({ files }) => `${files} files …`, diskFull: () => "…" };
//
// A kind without a sentence, or a sentence without its kind, does not compile.

/** One of several messages, told apart by `kind`. */
export interface Tagged {
  kind: string;
}

/** A sentence for every kind of `T`, made from its fields. */
export type Sentences<T extends Tagged> = { [K in T["kind"]]: (it: Extract<T, { kind: K }>) => string };

/** The sentence of a message. */
export function say<T extends Tagged>(sentences: Sentences<T>, it: T): string {
  const of: (it: never) => string = sentences[it.kind as T["kind"]];
  return of(it as never);
}
