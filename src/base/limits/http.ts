import { KIB, MIB, MINUTE, SECOND } from '../quantity.ts';

/** Callers: requests, streams, the command line, tools of agents. */
export const httpLimits = {
  /** Rows of one page of a list. */
  pageRowsMax: 1000,
  cursorCharsMax: 1000,
  /** Requests that may wait for the end of their job at the same time. */
  concurrentSyncMax: 10,
  /** A bearer token. */
  tokenCharsMax: 1024,
  /** Tokens shorter than this could be guessed, so an address that failed too often can't try them. */
  tokenGuessableChars: 16,
  /** Wrong tokens of one address in this window, and the number of addresses that are tracked. */
  wrongTokensMax: 100,
  wrongTokensMs: 1 * MINUTE,
  wrongTokenAddressesMax: 10_000,
  /** How long a server may take to accept a connection of the command line. */
  connectMs: 10 * SECOND,
  /** How long shell completion may wait for the service. */
  completionMs: 1 * SECOND,
  /** The body of one HTTP request. A payload of the largest size fits in. */
  requestBytesMax: 2 * MIB,
  /** The memory for incomplete request bodies, and the size of bodies that are too small to count. */
  bodiesBytesMax: 64 * MIB,
  bodySmallBytes: 64 * KIB,
  /** The request line and all headers of one request, and how many headers. */
  httpHeaderBytesMax: 16 * KIB,
  httpHeadersMax: 100,
  httpUrlCharsMax: 8 * KIB,
  /** How long a client may take to send its headers, and its whole request. */
  httpHeadersMs: 10 * SECOND,
  httpRequestMs: 30 * SECOND,
  /** How long a connection may be idle between requests. */
  httpKeepAliveMs: 65 * SECOND,
  /** How long a client may stop reading a response. */
  httpStallMs: 60 * SECOND,
  /** How often slow clients are checked. */
  httpCheckMs: 1 * SECOND,
  httpConnectionsMax: 2048,
  httpRequestsPerConnectionMax: 100_000,
  /** Entries of one list in a request. */
  inputListMax: 1000,
  requestIdCharsMax: 128,
  idempotencyKeyCharsMax: 255,
  /** Open event streams: in total, of all tenants together, of one tenant, of one token. */
  eventStreamsMax: 256,
  eventStreamsOfTenantsMax: 192,
  eventStreamsPerTenantMax: 64,
  eventStreamsPerTokenMax: 32,
  /** How often a stream of summaries sends one. */
  eventSummaryMs: 1 * SECOND,
  /** How often a stream without events sends a heartbeat. */
  eventHeartbeatMs: 15 * SECOND,
  /** How often a stream looks for events of other hosts. */
  eventPollMs: 1 * SECOND,
  /** How soon it looks again while the next event is being committed. */
  eventPendingPollMs: 50,
  /** Rows of each kind that one read returns, and their bytes. It returns at least one row of any size. */
  eventPageRows: 200,
  eventPageBytes: 1 * MIB,
  /** Reads of all streams at the same time. */
  eventReadsMax: 2,
  /** Figures over at most this many rows are read for each caller. Larger ones are shared. */
  figureRowsMax: 10_000,
  /** How long shared figures are used: this time, or a multiple of the time that reading them took. */
  figureMs: 1 * SECOND,
  figureRestFactor: 20,
  /** How old figures may become while newer ones are read. */
  figureStaleMs: 30 * SECOND,
  /** How often figures for monitors are read, and for how long after a monitor has asked. */
  figureEveryMs: 2 * SECOND,
  figureWatchedMs: 60 * SECOND,
  /** Windows of time whose figures are kept. */
  figureWindowsMax: 16,
  /** Rows that are counted for the total of a list. */
  countRowsMax: 1000,
  /** How long closing a listener waits for its requests in progress. */
  httpCloseMs: 1 * SECOND,
  /** How long a health check waits for the database before it answers without it. */
  healthMs: 2 * SECOND,
  /** How long a caller may wait for the end of the job that it started, by default. */
  jobWaitMs: 5 * MINUTE,
  /** Bytes of a result that `--json` prints, or that a tool returns, unless the caller asks for more. */
  resultBytes: 8 * KIB,
  /** Bytes of a tool's result: the smallest and the largest `budget` that a caller may ask for. */
  toolAnswerCharsMin: 1000,
  toolAnswerCharsMax: 400_000,
  /** The size of stored results that callers can page through: those of one caller, and all. */
  toolKeptCharsPerCaller: 16 * MIB,
  toolKeptCharsMax: 64 * MIB,
  /** The longest tool name that every client accepts, and the part of a plugin's description in a tool's. */
  toolNameCharsMax: 64,
  toolDescriptionCharsMax: 400,
  /** How long a tool that runs a command waits for its end; clients give up after a minute. */
  toolWaitMs: 30 * SECOND,
  /** The longest path of a Unix socket on every platform. */
  socketPathBytesMax: 100,
} as const;
