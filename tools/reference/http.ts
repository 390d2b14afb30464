import { catalogue } from '../../src/base/error-catalogue.ts';
import type { ErrorCode } from '../../src/base/errors.ts';
import {
  isOffered,
  listStatuses,
  type HttpSurface,
  type Operation,
} from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { describeNeed } from '../../src/access/scopes.ts';

/** Renders every endpoint of the API, sorted by path. */
export function renderHttp(): string {
  const rows = operations
    .flatMap((operation) => rowsOf(operation))
    .sort((a, b) =>
      a.path === b.path ? (a.method < b.method ? -1 : 1) : a.path < b.path ? -1 : 1,
    );
  const lines = rows.map(
    ({ method, path, scope, statuses, name }) =>
      `| \`${method} ${path}\` | ${scope} | ${statuses} | [${name}](operations.md#${name.replace('.', '')}) |`,
  );
  return `# HTTP endpoints

The API is on \`api.listen\` when \`api.enabled\` is true; the control socket has the same endpoints for
the local operator. How to use it is in [the API](../guides/api.md); what an operation takes and
answers is in [operations](operations.md) and, for programs, at \`/openapi.json\`.

Any endpoint that needs a token may also answer 401 (no valid token) and 403 (the token lacks the
scope); any may answer 400, 404, 405, 408, 413, 414, 415, 417, 421 or 431 to a request that is not
sound, and 503 when the database is away. All but \`GET\` take an \`Idempotency-Key\`, and
answer 422 when the key belongs to another request.

| endpoint | scope | statuses | operation |
| --- | --- | --- | --- |
${lines.join('\n')}

This page is written by \`tools/generate\` from the operations in \`src\`.
`;
}

interface EndpointRow {
  readonly method: string;
  readonly path: string;
  readonly scope: string;
  readonly statuses: string;
  readonly name: string;
}

function rowsOf(operation: Operation): EndpointRow[] {
  const { http, name, errors } = operation;
  if (!isOffered(http)) return [];
  return [http.path, ...(http.also ?? [])].map((path) => ({
    method: http.method,
    path: path.replace(/\/:(\w+)\?$/, '[/{$1}]').replaceAll(/:(\w+)/g, '{$1}'),
    scope: scopeOf(operation),
    statuses: showStatuses(http, errors),
    name,
  }));
}

/** Names the scope that a token needs. */
export function scopeOf({ scope, name }: Operation): string {
  if (scope === undefined) return 'open';
  if (typeof scope === 'function') return name.startsWith('plugin.') ? 'by plugin' : 'by type';
  return `\`${describeNeed(scope)}\``;
}

function showStatuses(http: HttpSurface, errors: readonly ErrorCode[]): string {
  const bad = errors.map((code) => catalogue[code].status);
  return [...new Set([...listStatuses(http), ...bad])].sort((x, y) => x - y).join(', ');
}
