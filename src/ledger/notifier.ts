/** What the hosts of one ledger tell each other. All of it may be lost: looking is the truth. */
export interface Notifier {
  onHint(listener: () => void): void;
  hint(): void;
  /** Calls back with what others say has ended; undefined when something may have been missed. */
  onEnds(listener: (ids: readonly string[] | undefined) => void): void;
  notifyEnds(ids: readonly string[]): void;
  close(): Promise<void>;
}

/** Where nobody else is to be told, and nobody tells. */
export const silentNotifier: Notifier = {
  onHint: () => undefined,
  hint: () => undefined,
  onEnds: () => undefined,
  notifyEnds: () => undefined,
  close: () => Promise.resolve(),
};
