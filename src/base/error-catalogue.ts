/**
 * The properties of an error code in the catalogue. Every failure that a user or a program can meet has
 * a code there. Only the catalogue decides its status, exit code, retryability, cause and hint.
 */
export interface ErrorKind {
  readonly status: number;
  readonly exit: number;
  readonly retryable: boolean;
  /** What happened, for people who look the code up. */
  readonly cause: string;
  /** What to do. */
  readonly hint: string;
}

const EXIT_CONFIG = 78;

type ErrorEffect = readonly [status: number, exit: number, retryable: boolean];

function kind([status, exit, retryable]: ErrorEffect, cause: string, hint: string): ErrorKind {
  return { status, exit, retryable, cause, hint };
}

const conflict = (cause: string, hint: string): ErrorKind => kind([409, 1, false], cause, hint);
const unavailable = (cause: string, hint: string): ErrorKind => kind([503, 1, true], cause, hint);
const misconfigured = (cause: string, hint: string): ErrorKind =>
  kind([500, EXIT_CONFIG, false], cause, hint);

function notFound(cause: string, listCommand: string): ErrorKind {
  return kind([404, 1, false], cause, `List them with \`ductile ${listCommand}\`.`);
}

export const catalogue = {
  AGENT_UNAVAILABLE: unavailable(
    'The plugin for webhook agents is missing, or its `allowed_users` is empty.',
    'Set up the plugin that `webhooks.agent` names, with `allowed_users` in its config.',
  ),
  ARCHIVE_INVALID: kind(
    [400, 1, false],
    'The archive of a configuration cannot be read, written or used.',
    'Use an archive that `ductile config backup` wrote.',
  ),
  BACKUP_INVALID: kind(
    [500, 1, true],
    'A backup could not be written, checked or restored.',
    'Check the free space of the target, then run the backup again.',
  ),
  BACKUP_REFUSED: conflict(
    'Nothing can be written to the path that a backup or export should go to.',
    'Choose a new path, in a directory that the service can write to.',
  ),
  CONFIG_EXISTS: conflict(
    'The directory already has a configuration.',
    'Choose another directory, or replace the configuration with `--force`.',
  ),
  CONFIG_INVALID: kind(
    [400, EXIT_CONFIG, false],
    'The configuration has an error.',
    'Correct the named key, then start again.',
  ),
  CONFIG_NOT_FOUND: kind(
    [404, EXIT_CONFIG, false],
    'No configuration was found.',
    'Name its directory or file with `--config`.',
  ),
  CREDENTIAL_KEY_INVALID: misconfigured(
    'The key that seals secrets is unusable, or a sealed value does not open with it.',
    'Correct the named key file or variable. See docs/guides/credentials.md.',
  ),
  CREDENTIAL_KEY_MISSING: misconfigured(
    'The database has sealed secrets, but the key that opens them is missing.',
    'Restore the key: the file `credential.key` in the state directory, or its variable.',
  ),
  CREDENTIAL_NOT_FOUND: notFound('The credential is missing or has expired.', 'credential list'),
  BUSY: unavailable(
    'Too many callers already wait, or another process is changing the same object.',
    'Retry in a few seconds, or send the request without `wait`.',
  ),
  CROWDED: unavailable(
    'Too many large request bodies were in flight, and this one was the slowest.',
    'Nothing was accepted. Retry in a few seconds and send the body without pauses.',
  ),
  CURSOR_RESET: kind(
    [410, 1, false],
    'The cursor is from before the database was restored.',
    'Start again without a cursor.',
  ),
  DEADLINE_EXCEEDED: kind(
    [504, 1, true],
    'The work took longer than its time limit, or the caller closed the connection.',
    'Retry when the service is less busy. The log may show the reason.',
  ),
  DIRECTIVE_FAILED: conflict(
    'A requested change failed.',
    'See the reason with `ductile directive show`.',
  ),
  APPROVAL_NEEDED: conflict(
    'The requested change waits for approval.',
    'Ask an approver to run `ductile directive approve`.',
  ),
  DIRECTIVE_NOT_WAITING: conflict(
    'The directive has already started, ended or been approved.',
    'See its status with `ductile directive show`.',
  ),
  DIRECTIVE_NOT_FOUND: notFound('No directive has this id.', 'directive list'),
  ENDPOINT_NOT_FOUND: kind(
    [404, 2, false],
    'No endpoint has this path.',
    'Check the path in the reference of the HTTP endpoints.',
  ),
  EXPECTATION_FAILED: kind(
    [417, 2, false],
    'The server does not support the `Expect` header of the request.',
    'Remove the `Expect` header.',
  ),
  FORBIDDEN: kind(
    [403, 1, false],
    'The token does not allow the request.',
    'Use a token with the required scope.',
  ),
  HANDLE_NOT_FOUND: kind(
    [404, 1, false],
    'The handle of a cut result is unknown or has expired.',
    'Call the tool again and use a handle from its result.',
  ),
  HEADERS_TOO_LARGE: kind(
    [431, 2, false],
    'The request has too many headers, or they are too long.',
    'Send fewer or shorter headers.',
  ),
  HOST_UNKNOWN: kind(
    [421, 2, false],
    'The `Host` header names a host that is not allowed.',
    'Add the origin to `api.allowed_origins`.',
  ),
  HOPS_EXCEEDED: conflict(
    'A chain of jobs that start each other has reached its maximum length.',
    'If jobs start each other in a loop, break it. Otherwise raise `service.max_hops`.',
  ),
  IDEMPOTENCY_MISMATCH: kind(
    [422, 2, false],
    'The idempotency key was already used for a different request.',
    'Use a new key, or resend the original request unchanged.',
  ),
  INPUT_INVALID: kind(
    [400, 2, false],
    'A field, option or argument of the request is invalid.',
    'Correct the named field.',
  ),
  INSTANCE_LOCKED: kind(
    [409, 1, true],
    'Another process uses the same state directory or database.',
    'Stop the process that holds the lock, or use its socket.',
  ),
  INCIDENT_NOT_FOUND: notFound('No incident has this id.', 'incident list --all'),
  JOB_NOT_FOUND: notFound('No job has this id.', 'job list'),
  JOB_OPEN: conflict('The job has not ended yet.', 'Wait until the job ends, or cancel it first.'),
  LEDGER_CORRUPT: kind(
    [500, 1, false],
    'The database is damaged.',
    'Restore a backup with `ductile system restore --from FILE`.',
  ),
  LEDGER_FOREIGN: misconfigured(
    'The file at `state.path` was not written by Ductile.',
    'Set `state.path` to a file that only Ductile uses.',
  ),
  LEDGER_NEWER: misconfigured(
    'A newer version of Ductile has changed the database schema.',
    'Run the newer version of Ductile, or restore an older backup.',
  ),
  LEDGER_OLDER: misconfigured(
    'The database schema is older than this version of Ductile requires.',
    'Start the service or run `ductile system migrate`. Both update the schema.',
  ),
  LEDGER_UNAVAILABLE: unavailable(
    'The database cannot be opened, read or written.',
    'Nothing was accepted. Retry when the database is available.',
  ),
  LEDGER_UNCERTAIN: unavailable(
    'The connection to the database broke before the result of a commit was known.',
    'The request may have been accepted. Retry it with the same id.',
  ),
  LEDGER_UNSUITABLE: misconfigured(
    'SQLite cannot store data safely with this file system or library version.',
    'Move `state.path` to a local disk, or use `state.url`.',
  ),
  LISTEN_FAILED: kind(
    [500, 1, true],
    'The service could not listen on an address or a socket.',
    'Stop the program that uses the address, or configure another address.',
  ),
  MEDIA_TYPE_UNSUPPORTED: kind(
    [415, 2, false],
    'The content type or encoding of the body is not supported.',
    'Send JSON in UTF-8 as application/json.',
  ),
  METHOD_NOT_ALLOWED: kind(
    [405, 2, false],
    'The endpoint does not support this method.',
    'Use one of the methods in the `Allow` header.',
  ),
  INSTALLATION_NOT_FOUND: notFound('No installation matches this name.', 'installation list'),
  PACKAGE_INSTALLED: conflict(
    'The package is already installed.',
    'Change it with `ductile package upgrade`, enable it, or uninstall it first.',
  ),
  PACKAGE_INVALID: kind(
    [422, 1, false],
    'The files of the package have errors.',
    'Correct the package. `ductile package validate` lists all errors.',
  ),
  PACKAGE_NOT_FOUND: notFound('No package has this name and version.', 'package list'),
  PACKAGE_REFUSED: conflict(
    'A package cannot be installed, upgraded or removed as requested.',
    'Nothing was changed. Fix the named problem, then try again.',
  ),
  PAYLOAD_TOO_LARGE: kind(
    [413, 2, false],
    'The body, or a value in it, is larger than allowed.',
    'Pass a reference to the data instead of the data.',
  ),
  PLUGIN_EXISTS: conflict(
    'A plugin with this name or a directory at this path already exists.',
    'Choose another name, or another directory with `--dir`.',
  ),
  PLUGIN_INVALID: kind(
    [422, EXIT_CONFIG, false],
    'The plugin has an error, or it is not set up yet.',
    'Correct the plugin. `ductile plugin list` shows the reason.',
  ),
  PLUGIN_NOT_ISOLATED: kind(
    [409, EXIT_CONFIG, false],
    'This host cannot isolate the plugin as the configuration requires.',
    'Run `ductile doctor` to see what this host supports, or change `isolation`.',
  ),
  PIPELINE_NOT_FOUND: notFound('No pipeline has this name.', 'pipeline list'),
  PLUGIN_NOT_FOUND: notFound('No enabled plugin has this name.', 'plugin list'),
  COMMAND_NOT_FOUND: notFound('The plugin has no command with this name.', 'plugin list'),
  RELOAD_REFUSED: kind(
    [409, EXIT_CONFIG, false],
    'The changed configuration cannot be loaded.',
    'The previous configuration stays active. Correct the new one, then reload again.',
  ),
  REQUEST_INVALID: kind(
    [400, 2, false],
    'The request is not valid HTTP.',
    'Send a well-formed HTTP/1.1 request.',
  ),
  REQUEST_TIMEOUT: kind(
    [408, 1, true],
    'The request did not arrive in time.',
    'Send the whole request without pauses.',
  ),
  RUN_NOT_FOUND: notFound('No run has this id.', 'run list'),
  RUN_NOT_HALTED: conflict(
    'The run is not halted, so it cannot be revived.',
    'Revive halted runs only. For other ended runs, use `ductile run retry-from`.',
  ),
  RUN_OPEN: conflict('The run has not ended yet.', 'Wait until the run ends, or cancel it first.'),
  RUN_REVIVED: conflict(
    'Another run already continues the work of this one.',
    'Use the run that continues its work.',
  ),
  SERVER_FOREIGN: kind(
    [502, 1, false],
    'The server at this address does not respond like Ductile.',
    'Check the address in `--url` or DUCTILE_URL.',
  ),
  SCHEDULE_NOT_FOUND: notFound('No schedule has this name.', 'schedule list'),
  SERVER_UNREACHABLE: unavailable(
    'The service is not running, or it cannot be reached.',
    'Start the service with `ductile system start`.',
  ),
  SIGNAL_MASKED: conflict(
    'The payload of the signal was masked, and no sealed copy exists.',
    'Emit it again from its source. This signal cannot be replayed.',
  ),
  SIGNAL_NOT_FOUND: notFound('No signal has this id.', 'signal list'),
  SPAWNER_FAILED: unavailable(
    'The spawner, which starts plugin processes, has failed.',
    'The service restarts the spawner. See the log.',
  ),
  STEP_AMBIGUOUS: conflict(
    'The name matches several steps of the run.',
    'Use the id of one step. `ductile run show -v` lists the ids.',
  ),
  STEP_NOT_FOUND: kind(
    [404, 1, false],
    'The run has no such step, or did not reach it.',
    'List its steps with `ductile run show`.',
  ),
  STEP_NOT_WAITING: conflict(
    'The step does not wait for a decision.',
    'See its status with `ductile run show`.',
  ),
  STOPPING: unavailable(
    'The service is shutting down.',
    'Retry when the service is running again.',
  ),
  SUBJECT_NOT_FOUND: kind(
    [404, 1, false],
    'Nothing matches this id or name.',
    'Use a longer part of the id, or set the kind with `--kind`.',
  ),
  TOOL_NOT_FOUND: kind(
    [404, 2, false],
    'No MCP tool with this name is available on this connection.',
    'List the tools again and use a listed name.',
  ),
  TENANT_EXISTS: conflict(
    'A tenant or a database with this name already exists.',
    'Choose another name. See `ductile tenant list`.',
  ),
  STREAMS_SPENT: kind(
    [429, 1, true],
    'Too many event streams are open.',
    'Close a stream that you no longer read, then open a new one.',
  ),
  TENANT_LIMIT: kind(
    [429, 1, true],
    'The tenant has reached one of its limits.',
    'Wait until some of its work has ended, or ask for a higher limit.',
  ),
  TENANT_NOT_FOUND: notFound('No tenant has this name.', 'tenant list'),
  TENANT_NOT_ISOLATED: kind(
    [409, EXIT_CONFIG, false],
    'Plugins of one tenant could read the data of another on this host.',
    'Run `ductile doctor` for the reason, or set `tenants.trust: shared` if all tenants trust each other.',
  ),
  TENANT_SUSPENDED: kind(
    [403, 1, false],
    'The tenant is not active.',
    'Ask the operator to resume the tenant.',
  ),
  TENANT_UNAVAILABLE: unavailable(
    'The tenant cannot be opened or changed now.',
    'See the reason with `ductile tenant show`.',
  ),
  TRIES_SPENT: kind(
    [429, 1, true],
    'Too many requests with a wrong token came from this address.',
    'Wait a minute, then use a valid token.',
  ),
  UNAUTHORIZED: kind(
    [401, 1, false],
    'The request has no valid token.',
    'Send the header `Authorization: Bearer <token>`.',
  ),
  URL_TOO_LONG: kind([414, 2, false], 'The URL is too long.', 'Put long values into the body.'),
  TOKEN_EXISTS: conflict(
    'A token has or had this name, or there are too many tokens.',
    'Choose another name: names are never reused. To replace the secret of a token, rotate it.',
  ),
  TOKEN_NOT_FOUND: notFound('No active token has this name or id.', 'token list'),
  WEBHOOK_EXISTS: conflict(
    'A webhook with this id already exists.',
    'Choose another id, or edit the existing webhook.',
  ),
  WEBHOOK_PROVIDED: conflict(
    'The webhook belongs to a package.',
    'Change the package that provides the webhook.',
  ),
  WEBHOOK_NOT_FOUND: notFound('No webhook has this id.', 'webhook list'),
  DELIVERY_NOT_FOUND: notFound('No delivery has this id.', 'webhook deliveries'),
  INTERNAL: kind(
    [500, 1, false],
    'An unexpected error occurred inside Ductile.',
    'This is a bug in Ductile. Please report it with the log.',
  ),
} as const satisfies Record<string, ErrorKind>;
