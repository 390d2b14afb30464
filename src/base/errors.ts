import { joinLines } from './text.ts';

/**
 * The properties of an error code in the catalogue. Every failure that a user or a program can meet has
 * a code there. Only the catalogue decides its status, exit code, retryability and hint.
 */
interface ErrorKind {
  readonly status: number;
  readonly exit: number;
  readonly retryable: boolean;
  readonly hint: string;
}

const EXIT_CONFIG = 78;

function kind(status: number, exit: number, retryable: boolean, hint: string): ErrorKind {
  return { status, exit, retryable, hint };
}

export const catalogue = {
  AGENT_UNAVAILABLE: kind(
    503,
    1,
    true,
    'Set up the plugin that webhooks.agent names, with allowed_users in its config.',
  ),
  ARCHIVE_INVALID: kind(400, 1, false, 'Name an archive that `ductile config backup` wrote.'),
  BACKUP_INVALID: kind(500, 1, true, 'Run the backup again; check the free space of the target.'),
  BACKUP_REFUSED: kind(409, 1, false, 'Name a place that can be written and is not taken yet.'),
  CONFIG_EXISTS: kind(409, 1, false, 'Name another directory, or say --force to replace it.'),
  CONFIG_INVALID: kind(400, EXIT_CONFIG, false, 'Correct the named key, then start again.'),
  CONFIG_NOT_FOUND: kind(404, EXIT_CONFIG, false, 'Name it with --config DIR or FILE.'),
  CREDENTIAL_KEY_INVALID: kind(
    500,
    EXIT_CONFIG,
    false,
    'Correct the key file or the variable that is named; see docs/operate/credentials.md.',
  ),
  CREDENTIAL_KEY_MISSING: kind(
    500,
    EXIT_CONFIG,
    false,
    'Put the key back: the file credential.key of the state directory, or its variable.',
  ),
  CREDENTIAL_NOT_FOUND: kind(404, 1, false, 'List them with `ductile credential list`.'),
  BUSY: kind(503, 1, true, 'Ask again in a moment, or without waiting for the end.'),
  CROWDED: kind(503, 1, true, 'Send it again in a moment, all at once; nothing was accepted.'),
  CURSOR_RESET: kind(410, 1, false, 'The ledger was restored; begin again without a cursor.'),
  DEADLINE_EXCEEDED: kind(504, 1, true, 'Ask again when the system is less busy; see the log.'),
  DIRECTIVE_FAILED: kind(409, 1, false, 'See why with `ductile directive show`.'),
  APPROVAL_NEEDED: kind(
    409,
    1,
    false,
    'It waits until somebody approves it with `ductile directive approve`.',
  ),
  DIRECTIVE_NOT_WAITING: kind(409, 1, false, 'See what became of it: `ductile directive show`.'),
  DIRECTIVE_NOT_FOUND: kind(404, 1, false, 'List them with `ductile directive list`.'),
  ENDPOINT_NOT_FOUND: kind(404, 2, false, 'See the reference of the HTTP endpoints.'),
  EXPECTATION_FAILED: kind(417, 2, false, 'Leave the Expect header away.'),
  FORBIDDEN: kind(403, 1, false, 'Use a token with the scope that is needed.'),
  HANDLE_NOT_FOUND: kind(404, 1, false, 'Call the tool again, and use a handle of that answer.'),
  HEADERS_TOO_LARGE: kind(431, 2, false, 'Send fewer or shorter headers.'),
  HOST_UNKNOWN: kind(421, 2, false, 'Add the origin to api.allowed_origins.'),
  HOPS_EXCEEDED: kind(
    409,
    1,
    false,
    'Jobs start each other in a circle; cut it, or raise service.max_hops.',
  ),
  IDEMPOTENCY_MISMATCH: kind(
    422,
    2,
    false,
    'Use another key, or ask for exactly what was asked with it first.',
  ),
  INPUT_INVALID: kind(400, 2, false, 'Correct the named field.'),
  INSTANCE_LOCKED: kind(409, 1, true, 'Stop the process that holds the lock, or use its socket.'),
  INCIDENT_NOT_FOUND: kind(404, 1, false, 'List them with `ductile incident list --all`.'),
  JOB_NOT_FOUND: kind(404, 1, false, 'List jobs with `ductile job list`.'),
  JOB_OPEN: kind(409, 1, false, 'Wait for its end, or cancel it first.'),
  LEDGER_CORRUPT: kind(
    500,
    1,
    false,
    'Restore a backup with `ductile system restore --from FILE`.',
  ),
  LEDGER_FOREIGN: kind(500, EXIT_CONFIG, false, 'Point state.path at a file of its own.'),
  LEDGER_NEWER: kind(
    500,
    EXIT_CONFIG,
    false,
    'Run the newer Ductile that wrote it, or restore an older backup.',
  ),
  LEDGER_OLDER: kind(
    500,
    EXIT_CONFIG,
    false,
    'Start the service, or run `ductile system migrate`; both bring the schema up to date.',
  ),
  LEDGER_UNAVAILABLE: kind(
    503,
    1,
    true,
    'Nothing was accepted. Try again when the database is back.',
  ),
  LEDGER_UNCERTAIN: kind(
    503,
    1,
    true,
    'It may or may not have been accepted. Ask again with the same id.',
  ),
  LEDGER_UNSUITABLE: kind(
    500,
    EXIT_CONFIG,
    false,
    'Move state.path to a local disk, or use state.url.',
  ),
  LISTEN_FAILED: kind(
    500,
    1,
    true,
    'Stop the program that has the address, or configure another one.',
  ),
  MEDIA_TYPE_UNSUPPORTED: kind(415, 2, false, 'Send JSON in UTF-8 as application/json.'),
  METHOD_NOT_ALLOWED: kind(405, 2, false, 'Use one of the methods in the Allow header.'),
  INSTALLATION_NOT_FOUND: kind(404, 1, false, 'List them with `ductile installation list`.'),
  PACKAGE_INSTALLED: kind(
    409,
    1,
    false,
    'Change it with `ductile package upgrade`, enable it, or uninstall it first.',
  ),
  PACKAGE_INVALID: kind(
    422,
    1,
    false,
    'Correct the package; `ductile package validate` shows all.',
  ),
  PACKAGE_NOT_FOUND: kind(404, 1, false, 'List packages with `ductile package list`.'),
  PACKAGE_REFUSED: kind(
    409,
    1,
    false,
    'Nothing was changed. Put right what is named, then try again.',
  ),
  PAYLOAD_TOO_LARGE: kind(413, 2, false, 'Pass a reference to the data instead of the data.'),
  PLUGIN_EXISTS: kind(409, 1, false, 'Choose another name, or another directory with --dir.'),
  PLUGIN_INVALID: kind(
    422,
    EXIT_CONFIG,
    false,
    'Correct the plugin; `ductile plugin list` shows the reason.',
  ),
  PLUGIN_NOT_ISOLATED: kind(
    409,
    EXIT_CONFIG,
    false,
    'Run `ductile doctor` for the tier of this host, or change isolation in the configuration.',
  ),
  PIPELINE_NOT_FOUND: kind(404, 1, false, 'List pipelines with `ductile pipeline list`.'),
  PLUGIN_NOT_FOUND: kind(404, 1, false, 'List plugins with `ductile plugin list`.'),
  COMMAND_NOT_FOUND: kind(404, 1, false, 'List commands with `ductile plugin list`.'),
  RELOAD_REFUSED: kind(
    409,
    EXIT_CONFIG,
    false,
    'What was in force stays in force. Correct it, then reload again.',
  ),
  REQUEST_INVALID: kind(400, 2, false, 'Send a well-formed HTTP/1.1 request.'),
  REQUEST_TIMEOUT: kind(408, 1, true, 'Send the whole request without pauses.'),
  RUN_NOT_FOUND: kind(404, 1, false, 'List runs with `ductile run list`.'),
  RUN_NOT_HALTED: kind(
    409,
    1,
    false,
    'Only a halted run is revived; `run retry-from` takes others.',
  ),
  RUN_OPEN: kind(409, 1, false, 'Wait for its end, or cancel it first.'),
  RUN_REVIVED: kind(409, 1, false, 'Look at the run that goes on with its work.'),
  SERVER_FOREIGN: kind(502, 1, false, 'Check the address in --url or DUCTILE_URL.'),
  SCHEDULE_NOT_FOUND: kind(404, 1, false, 'List schedules with `ductile schedule list`.'),
  SERVER_UNREACHABLE: kind(503, 1, true, 'Start it with `ductile system start`.'),
  SIGNAL_MASKED: kind(409, 1, false, 'Emit it again from where it came; it cannot be replayed.'),
  SIGNAL_NOT_FOUND: kind(404, 1, false, 'List signals with `ductile signal list`.'),
  SPAWNER_FAILED: kind(503, 1, true, 'The helper that starts plugins is restarted; see the log.'),
  STEP_AMBIGUOUS: kind(
    409,
    1,
    false,
    'Name one of the steps that are meant; `run show -v` has them with their ids.',
  ),
  STEP_NOT_FOUND: kind(404, 1, false, 'See its steps with `ductile run show`.'),
  STEP_NOT_WAITING: kind(409, 1, false, 'See what became of it with `ductile run show`.'),
  STOPPING: kind(503, 1, true, 'The server is shutting down; ask again when it is back.'),
  SUBJECT_NOT_FOUND: kind(
    404,
    1,
    false,
    'Give a longer part of its id, or say what it is with --kind.',
  ),
  TOOL_NOT_FOUND: kind(404, 2, false, 'List the tools again, and use a name as it stands there.'),
  TENANT_EXISTS: kind(409, 1, false, 'Choose another name; see `ductile tenant list`.'),
  STREAMS_SPENT: kind(429, 1, true, 'Close a stream that is no longer read, then open it again.'),
  TENANT_LIMIT: kind(429, 1, true, 'Wait until some of it is done, or ask for a higher limit.'),
  TENANT_NOT_FOUND: kind(404, 1, false, 'List them with `ductile tenant list`.'),
  TENANT_NOT_ISOLATED: kind(
    409,
    EXIT_CONFIG,
    false,
    'Run `ductile doctor` for the reason, or set tenants.trust: shared if all tenants trust each other.',
  ),
  TENANT_SUSPENDED: kind(403, 1, false, 'Ask the operator to resume it.'),
  TENANT_UNAVAILABLE: kind(503, 1, true, 'See the reason with `ductile tenant show`.'),
  TRIES_SPENT: kind(429, 1, true, 'Wait a minute, and ask with a valid token.'),
  UNAUTHORIZED: kind(401, 1, false, 'Send the header Authorization: Bearer <token>.'),
  URL_TOO_LONG: kind(414, 2, false, 'Put long values into the body.'),
  TOKEN_EXISTS: kind(
    409,
    1,
    false,
    'Choose another name: names are never reused. For a new text of the same token, rotate it.',
  ),
  TOKEN_NOT_FOUND: kind(404, 1, false, 'List them with `ductile token list`.'),
  WEBHOOK_EXISTS: kind(409, 1, false, 'Choose another id, or change that webhook.'),
  WEBHOOK_PROVIDED: kind(409, 1, false, 'Change the package that brings it.'),
  WEBHOOK_NOT_FOUND: kind(404, 1, false, 'List them with `ductile webhook list`.'),
  DELIVERY_NOT_FOUND: kind(404, 1, false, 'List them with `ductile webhook deliveries`.'),
  INTERNAL: kind(500, 1, false, 'This is a defect of Ductile; please report it with the log.'),
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof catalogue;

interface DuctileErrorOptions {
  /** The location of the fault: a file with a line, a key, an id. */
  readonly place?: string | undefined;
  /** A remedy that is more exact than the catalogue's hint. */
  readonly hint?: string | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly cause?: unknown;
}

export class DuctileError extends Error {
  override readonly name = 'DuctileError';
  readonly code: ErrorCode;
  readonly place: string | undefined;
  readonly hint: string;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: DuctileErrorOptions = {}) {
    super(joinLines(message), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.place = options.place;
    this.hint = options.hint ?? catalogue[code].hint;
    this.details = options.details;
  }

  get kind(): ErrorKind {
    return catalogue[this.code];
  }

  toJSON(): Record<string, unknown> {
    return {
      error: this.message,
      code: this.code,
      ...(this.place === undefined ? {} : { place: this.place }),
      hint: this.hint,
      retryable: this.kind.retryable,
      ...(this.details === undefined ? {} : { details: this.details }),
    };
  }
}

/** Converts a thrown value to an error of the catalogue. */
export function toDuctileError(thrown: unknown): DuctileError {
  if (thrown instanceof DuctileError || isTwin(thrown)) return thrown;
  return new DuctileError('INTERNAL', messageOf(thrown), { cause: thrown });
}

/** Recognizes errors of other bundles: the program is built into several files, each with its own class. */
function isTwin(thrown: unknown): thrown is DuctileError {
  return thrown instanceof Error && thrown.name === 'DuctileError' && 'kind' in thrown;
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
