import { DAY, KIB, MIB } from '../quantity.ts';

/** Stored and reported data: payloads, signals, errors, log lines. */
export const dataLimits = {
  /** The payload of a job as JSON text. */
  payloadBytesMax: 1 * MIB,
  /** A dedupe key. It is part of an index, and PostgreSQL limits the size of index rows. */
  dedupeKeyBytesMax: 1 * KIB,
  /** A dependency key. It is part of an index, too. */
  dependencyKeyCharsMax: 200,
  /** The type of an event or signal. For a posted signal also its source and correlation. */
  eventTypeBytesMax: 255,
  /** The metadata of a signal. */
  signalMetadataBytesMax: 64 * KIB,
  /** The signals of one request that reports several. */
  signalsReportedMax: 1000,
  /** How far in the future a signal may have occurred. */
  occurredAheadMsMax: 1 * DAY,
  /** The message of a failure. The whole output is in the log. */
  errorCharsMax: 4096,
  /** Levels of nesting in a payload or a response. */
  jsonDepthMax: 64,
  /**
   * The length of a chain of signals that cause each other; a longer one counts as a loop. Setting:
   * `service.max_hops`.
   */
  hopsMax: 32,
  /** The size of the signals that one step of a replay reads. It reads at least one of any size. */
  replayStepBytes: 4 * MIB,
  /** Log lines that wait for a slow reader or a full disk. More lines are dropped. */
  logBufferBytesMax: 16 * MIB,
  /** The delay before log lines are written again after a slow reader. */
  logRetryMs: 50,
  /** The delay before log lines are written again after an error. */
  logRefusedRetryMs: 1000,
  /** How long the exit waits for a reader to read the remaining lines. */
  logFlushMs: 5000,
  /** The log lines that the service keeps in memory for later queries. */
  logRingLinesMax: 5000,
  /** The size of the log lines that the service keeps in memory. */
  logRingBytesMax: 4 * MIB,
  /** Keys of all objects in one JSON text. */
  jsonKeysMax: 10_000,
  /** Elements of all lists and members of all objects in one JSON text. */
  jsonElementsMax: 100_000,
  /** Characters of a number in JSON that a double can't hold. */
  jsonNumberCharsMax: 1000,
} as const;
