import { KIB, MIB, MINUTE, SECOND } from '../quantity.ts';

/** Callers: requests, streams, the command line, tools of agents. */
export const httpLimits = {
  /** Rows of one page of a list. */
  pageRowsMax: 1000,
  /** The cursor of a page. */
  cursorCharsMax: 1000,
  /** Requests that may wait for the end of their job at the same time. Setting: `api.max_concurrent_sync`. */
  concurrentSyncMax: 10,
  /** A bearer token. */
  tokenCharsMax: 1024,
  /** Tokens shorter than this could be guessed, so an address that failed too often can't try them. */
  tokenGuessableChars: 16,
  /** Wrong tokens of one address in the window. */
  wrongTokensMax: 100,
  /** The window in which the wrong tokens of one address are counted. */
  wrongTokensMs: 1 * MINUTE,
  /** The addresses whose wrong tokens are counted. */
  wrongTokenAddressesMax: 10_000,
  /** How long a server may take to accept a connection of the command line. */
  connectMs: 10 * SECOND,
  /** How long shell completion may wait for the service. */
  completionMs: 1 * SECOND,
  /** The body of one HTTP request. A payload of the largest size fits in. */
  requestBytesMax: 2 * MIB,
  /** The memory for incomplete request bodies. */
  bodiesBytesMax: 64 * MIB,
  /** The size of a request body that is too small to count. */
  bodySmallBytes: 64 * KIB,
  /** The request line and all headers of one request. */
  httpHeaderBytesMax: 16 * KIB,
  /** The headers of one request. */
  httpHeadersMax: 100,
  /** The URL of one request. */
  httpUrlCharsMax: 8 * KIB,
  /** How long a client may take to send its headers. */
  httpHeadersMs: 10 * SECOND,
  /** How long a client may take to send its whole request. */
  httpRequestMs: 30 * SECOND,
  /** How long a connection may be idle between requests. */
  httpKeepAliveMs: 65 * SECOND,
  /** How long a client may stop reading a response. */
  httpStallMs: 60 * SECOND,
  /** How long the dashboard and the documentation stay in memory without a request. */
  siteIdleMs: 5 * MINUTE,
  /** How often slow clients are checked. */
  httpCheckMs: 1 * SECOND,
  /** The open connections of one listener. */
  httpConnectionsMax: 2048,
  /** The requests on one connection. */
  httpRequestsPerConnectionMax: 100_000,
  /** Entries of one list in a request. */
  inputListMax: 1000,
  /** The `X-Request-Id` of a request. */
  requestIdCharsMax: 128,
  /** The `Idempotency-Key` of a request. */
  idempotencyKeyCharsMax: 255,
  /** The open event streams. */
  eventStreamsMax: 256,
  /** The open event streams of all tenants together. */
  eventStreamsOfTenantsMax: 192,
  /** The open event streams of one tenant. */
  eventStreamsPerTenantMax: 64,
  /** The open event streams of one token. */
  eventStreamsPerTokenMax: 32,
  /** How often a stream of summaries sends one. */
  eventSummaryMs: 1 * SECOND,
  /** How often a stream without events sends a heartbeat. */
  eventHeartbeatMs: 15 * SECOND,
  /** How often a stream looks for events of other hosts. */
  eventPollMs: 1 * SECOND,
  /** How soon it looks again while the next event is being committed. */
  eventPendingPollMs: 50,
  /** Rows of each kind that one read of a stream returns. */
  eventPageRows: 200,
  /** The size of one read of a stream. It returns at least one row of any size. */
  eventPageBytes: 1 * MIB,
  /** Reads of all streams at the same time. */
  eventReadsMax: 2,
  /** Figures over at most this many rows are read for each caller. Larger ones are shared. */
  figureRowsMax: 10_000,
  /** How long shared figures are used. */
  figureMs: 1 * SECOND,
  /** How long shared figures are used, as a multiple of the time that reading them took. */
  figureRestFactor: 20,
  /** How old figures may become while newer ones are read. */
  figureStaleMs: 30 * SECOND,
  /** How often figures for monitors are read. */
  figureEveryMs: 2 * SECOND,
  /** How long figures for monitors are read after a monitor has asked. */
  figureWatchedMs: 60 * SECOND,
  /** Windows of time whose figures are kept. */
  figureWindowsMax: 16,
  /** Rows that are counted for the total of a list. */
  countRowsMax: 1000,
  /** How long closing a listener waits for its requests in progress. */
  httpCloseMs: 1 * SECOND,
  /** How long a health check waits for the database before it answers without it. */
  healthMs: 2 * SECOND,
  /** How long a caller may wait for the end of the job that it started. Setting: `api.max_sync_timeout`. */
  jobWaitMs: 5 * MINUTE,
  /** Bytes of a result that `--json` prints, or that a tool returns. Setting: `--full`, or `budget` of a tool. */
  resultBytes: 8 * KIB,
  /** The smallest `budget` of a tool’s result. */
  toolAnswerCharsMin: 1000,
  /** The largest `budget` of a tool’s result. */
  toolAnswerCharsMax: 400_000,
  /** The size of stored results that one caller can page through. */
  toolKeptCharsPerCaller: 16 * MIB,
  /** The size of all stored results that callers can page through. */
  toolKeptCharsMax: 64 * MIB,
  /** The longest tool name that every client accepts. */
  toolNameCharsMax: 64,
  /** The part of a plugin’s description that is in the description of its tool. */
  toolDescriptionCharsMax: 400,
  /** How long a tool that runs a command waits for its end; clients give up after a minute. */
  toolWaitMs: 30 * SECOND,
  /** The longest path of a Unix socket on every platform. */
  socketPathBytesMax: 100,
} as const;
