import { KIB, MIB, MINUTE, SECOND } from './units.ts';

/** Who asks: requests, streams, the command line, tools of agents. */
export const httpLimits = {
  /** Rows of one page of a list. */
  pageRowsMax: 1000,
  cursorCharsMax: 1000,
  /** Requests that may wait for the end of their job at once. */
  concurrentSyncMax: 10,
  /** A bearer token. */
  tokenCharsMax: 1024,
  /** Tokens shorter than this could be guessed, so an address that failed too often can't try them. */
  tokenGuessableChars: 16,
  /** Wrong tokens that one address may show in this time, and of how many addresses that is kept. */
  wrongTokensMax: 100,
  wrongTokensMs: 1 * MINUTE,
  wrongTokenAddressesMax: 10_000,
  /** How long a server may take to accept a connection of the command line. */
  connectMs: 10 * SECOND,
  /** How long the completion of a command line may take for what it asks. */
  completionMs: 1 * SECOND,
  /** The body of one HTTP request; a payload at its limit fits in. */
  requestBytesMax: 2 * MIB,
  /** What may be here of bodies that have not come wholly, and what is too small to count. */
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
  /** How long a client may take none of an answer that is ready for it. */
  httpStallMs: 60 * SECOND,
  /** How late a client that is too slow may be noticed. */
  httpCheckMs: 1 * SECOND,
  httpConnectionsMax: 2048,
  httpRequestsPerConnectionMax: 100_000,
  /** Entries of one list among the fields of a request. */
  inputListMax: 1000,
  requestIdCharsMax: 128,
  idempotencyKeyCharsMax: 255,
  /** Open event streams: in total, of all tenants together, of one tenant, of one token. */
  eventStreamsMax: 256,
  eventStreamsOfTenantsMax: 192,
  eventStreamsPerTenantMax: 64,
  eventStreamsPerTokenMax: 32,
  /** How often those are told who want to know of events in sums. */
  eventSummaryMs: 1 * SECOND,
  /** A sign of life on a stream without events. */
  eventHeartbeatMs: 15 * SECOND,
  /** How often a stream looks for what other hosts wrote. */
  eventPollMs: 1 * SECOND,
  /** How soon it looks again when what comes next is being written. */
  eventPendingPollMs: 50,
  /** Rows of each kind that one look reads, and their bytes; one row is read however large it is. */
  eventPageRows: 200,
  eventPageBytes: 1 * MIB,
  /** Looks at once, of all streams together. */
  eventReadsMax: 2,
  /** Figures over at most this many rows are read for each caller; larger ones are shared. */
  figureRowsMax: 10_000,
  /** How long shared figures are used, and how many times as long as it took to read them. */
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
  /** How long a request under way may hold up the end of its listener. */
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
  /** What is kept of such answers for who wants more of one: of one caller, and of all. */
  toolKeptCharsPerCaller: 16 * MIB,
  toolKeptCharsMax: 64 * MIB,
  /** The name of a tool that every client takes, and what is told of a plugin's own words. */
  toolNameCharsMax: 64,
  toolDescriptionCharsMax: 400,
  /** How long a tool that runs a command waits for its end; clients give up after a minute. */
  toolWaitMs: 30 * SECOND,
  /** The longest path of a Unix socket that every platform takes. */
  socketPathBytesMax: 100,
} as const;
