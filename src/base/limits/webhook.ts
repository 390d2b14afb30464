import { DAY, KIB, MIB, MINUTE, SECOND } from './units.ts';

/** Webhooks and what agents are asked through them. */
export const webhookLimits = {
  /** A webhook's id in its address, its title and its description, its template and its instruction. */
  webhookIdCharsMax: 64,
  webhookPathCharsMax: 200,
  webhookTitleCharsMax: 200,
  webhookDescriptionCharsMax: 4 * KIB,
  promptTemplateCharsMax: 64 * KIB,
  /** What a template becomes; it is part of a job's payload. */
  promptCharsMax: 1 * MIB,
  /** Parameters that a webhook adds to the command line of its agent, and one of them. */
  cliParametersMax: 100,
  cliParameterCharsMax: 4 * KIB,
  /** The body of one delivery: its payload must fit into a job's. */
  webhookBodyBytesMax: 1 * MIB,
  /** Verified deliveries of one webhook in a minute, unless it says otherwise, and at most. */
  webhookRateDefault: 600,
  webhookRateMax: 600_000,
  /** Deliveries of one source that may fail their verification in a minute. */
  webhookFailuresMax: 100,
  /** What is verified of a source that has failed more often: to verify more would cost too much. */
  webhookSmallBodyBytes: 64 * KIB,
  /** Refused deliveries of one webhook in a minute that are written down. */
  webhookRejectionsKeptMax: 60,
  /** What is kept of the address that a proxy names. */
  webhookSourceChars: 100,
  /** What is kept of one header of a delivery. */
  webhookHeaderKeptChars: 500,
  /** The sender's event type as it is kept, and the headers that one webhook passes on. */
  webhookEventTypeChars: 200,
  webhookHeadersMax: 20,
  /** What is kept of why a body was refused. */
  webhookReasonChars: 200,
  /** When a sender is to try again whose target is not there. */
  webhookRetryAfterSeconds: 60,
  /** How long a sender may wait for what its delivery comes to, unless told, and at most. */
  webhookRespondMs: 10 * SECOND,
  webhookRespondMsMax: 1 * MINUTE,
  /** How long a process goes by what it knows of the webhooks that others may change. */
  webhookCacheMs: 1 * SECOND,
  /** How long the secret of a webhook may stay good after it was rotated. */
  webhookOldSecretMsMax: 30 * DAY,
  /** Webhooks and sources of which it is kept how much they did in the last minute. */
  webhookWindowsMax: 10_000,
  /** How long it is remembered that a webhook was sent more than it takes. */
  webhookThrottledMs: 10 * MINUTE,
  /** Secrets of one webhook that are good at once, and signatures that one delivery may carry. */
  webhookSecretsMax: 8,
  /** One that somebody brings: whoever has none may try as many as the server can take. */
  webhookSecretCharsMin: 8,
  webhookSignaturesMax: 8,
  /** A header that is verified, and how far from now the time in it may be. */
  webhookHeaderCharsMax: 4 * KIB,
  webhookToleranceMs: 5 * MINUTE,
  webhookToleranceMsMax: 1 * DAY,
  /** The id of a delivery; a longer one is kept as its digest. */
  deliveryIdCharsMax: 255,
  /** What Slack wants to hear back. */
  webhookChallengeCharsMax: 1 * KIB,
  /** A pattern for headers, and the steps that it is compiled to. */
  patternCharsMax: 256,
  patternStepsMax: 1000,
  patternDepthMax: 16,
  /** What all patterns of one delivery may compare before it is given up: a few milliseconds. */
  patternEffortMax: 150_000,
} as const;
