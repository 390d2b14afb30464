import { DAY, KIB, MIB } from './units.ts';

/** What is stored and told: payloads, signals, errors, log lines. */
export const dataLimits = {
  /** One job's payload as JSON text. */
  payloadBytesMax: 1 * MIB,
  /** A dedupe key: it is part of an index, and PostgreSQL's rows there are short. */
  dedupeKeyBytesMax: 1 * KIB,
  /** A dependency key, for the same reason. */
  dependencyKeyCharsMax: 200,
  /** The type of an event or signal; of a posted one also its source and its correlation. */
  eventTypeBytesMax: 255,
  /** What is told about a signal beside its data, and how far in the future it may have happened. */
  signalMetadataBytesMax: 64 * KIB,
  signalsReportedMax: 1000,
  occurredAheadMsMax: 1 * DAY,
  /** The message of one failure; the whole output is in the log. */
  errorCharsMax: 4096,
  /** Levels of nesting in a payload or a response. */
  jsonDepthMax: 64,
  /** Jobs that one enqueue may carry. */
  enqueueJobsMax: 10_000,
  /** How often a chain of signals may cause the next one before it counts as a loop. */
  hopsMax: 32,
  /** Text of the signals that one step of a replay reads; one is read however large it is. */
  replayStepBytes: 4 * MIB,
  /** Log lines that wait for a slow reader or a full disk; what comes on top is dropped. */
  logBufferBytesMax: 16 * MIB,
  /** When they are tried again, where the reader is slow and where they were refused. */
  logRetryMs: 50,
  logRefusedRetryMs: 1000,
  /** How long the exit waits for a reader to take what is left. */
  logFlushMs: 5000,
  /** What the core keeps of its own log for whoever asks later. */
  logRingLinesMax: 5000,
  logRingBytesMax: 4 * MIB,
  /** Keys of all objects in one JSON text. */
  jsonKeysMax: 10_000,
  /** Elements of all lists and members of all objects in one JSON text. */
  jsonElementsMax: 100_000,
  /** Characters of a number in JSON that a double can't hold. */
  jsonNumberCharsMax: 1000,
} as const;
