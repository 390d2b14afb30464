import { DAY, KIB, MIB, MINUTE, SECOND } from '../quantity.ts';

/** Webhooks and their agents. */
export const webhookLimits = {
  /** The id of a webhook. */
  webhookIdCharsMax: 64,
  /** The path of a webhook in the configuration. */
  webhookPathCharsMax: 200,
  /** The title of a webhook. */
  webhookTitleCharsMax: 200,
  /** The description of a webhook. */
  webhookDescriptionCharsMax: 4 * KIB,
  /** The prompt template of a webhook. */
  promptTemplateCharsMax: 64 * KIB,
  /** A prompt after its template is filled. It is part of a job's payload. */
  promptCharsMax: 1 * MIB,
  /** Parameters that a webhook adds to the command line of its agent. */
  cliParametersMax: 100,
  /** The length of one parameter. */
  cliParameterCharsMax: 4 * KIB,
  /**
   * The body of one delivery. Its payload must fit into a job’s. Setting (lower only): `max_body_bytes` of
   * a webhook.
   */
  webhookBodyBytesMax: 1 * MIB,
  /** Verified deliveries of one webhook per minute by default. Setting: `rate_limit_per_minute` of a webhook. */
  webhookRateDefault: 600,
  /** The highest value of `rate_limit_per_minute`. */
  webhookRateMax: 600_000,
  /** Deliveries of one source that may fail verification per minute. */
  webhookFailuresMax: 100,
  /** The largest body that is still verified for a source with more failures; larger ones cost too much. */
  webhookSmallBodyBytes: 64 * KIB,
  /** Rejected deliveries of one webhook that are recorded per minute. */
  webhookRejectionsKeptMax: 60,
  /** The stored part of the client address in a proxy's header. */
  webhookSourceChars: 100,
  /** The stored part of one header of a delivery. */
  webhookHeaderKeptChars: 500,
  /** The stored event type of the sender. */
  webhookEventTypeChars: 200,
  /** The headers that one webhook passes on. */
  webhookHeadersMax: 20,
  /** The stored reason of a rejected body. */
  webhookReasonChars: 200,
  /** The Retry-After of a delivery whose target doesn't exist. */
  webhookRetryAfterSeconds: 60,
  /** How long a sender waits for the result of its delivery by default. Setting: `respond_within` of a webhook. */
  webhookRespondMs: 10 * SECOND,
  /** The highest value of `respond_within`. */
  webhookRespondMsMax: 1 * MINUTE,
  /** How long a process caches webhooks, which other processes may change. */
  webhookCacheMs: 1 * SECOND,
  /** How long the old secret of a webhook may stay valid after a rotation. */
  webhookOldSecretMsMax: 30 * DAY,
  /** Webhooks and sources whose deliveries in the last minute are counted. */
  webhookWindowsMax: 10_000,
  /** How long a webhook counts as throttled after its rate limit was reached. */
  webhookThrottledMs: 10 * MINUTE,
  /** The valid secrets of one webhook. */
  webhookSecretsMax: 8,
  /** The shortest secret that a user may choose. A shorter one could be guessed by trying. */
  webhookSecretCharsMin: 8,
  /** The signatures that one delivery may have. */
  webhookSignaturesMax: 8,
  /** A header with a signature. */
  webhookHeaderCharsMax: 4 * KIB,
  /**
   * How far from now the timestamp of a signature may be. Setting: `hmac_tolerance`, or `tolerance` of
   * `signed`.
   */
  webhookToleranceMs: 5 * MINUTE,
  /** The highest tolerance for the timestamp of a signature. */
  webhookToleranceMsMax: 1 * DAY,
  /** The id of a delivery. A longer one is stored as its digest. */
  deliveryIdCharsMax: 255,
  /** The challenge that Slack sends to verify an address. */
  webhookChallengeCharsMax: 1 * KIB,
  /** A pattern for headers. */
  patternCharsMax: 256,
  /** The steps that a pattern is compiled to. */
  patternStepsMax: 1000,
  /** The nesting of a pattern. */
  patternDepthMax: 16,
  /** The comparisons of all patterns of one delivery before matching stops: a few milliseconds. */
  patternEffortMax: 150_000,
} as const;
