/**
 * HTTP method and path of each operation. The build computes this table and replaces this file with
 * it, so that the page contains no code of the service.
 */
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';

export interface HttpRoute {
  readonly method: string;
  /** Contains `:field` for fields of the input; `:field?` at its end is optional. */
  readonly path: string;
  /** The field that is sent as the body; all others are then in the query. */
  readonly body?: string;
  readonly isDestructive?: true;
}

export const httpRoutes: Readonly<Record<string, HttpRoute>> = Object.fromEntries(
  operations.flatMap(({ name, http, effect }) =>
    isOffered(http)
      ? [
          [
            name,
            {
              method: http.method,
              path: http.path,
              ...(http.body === undefined ? {} : { body: http.body }),
              ...(effect === 'destroy' ? { isDestructive: true as const } : {}),
            },
          ],
        ]
      : [],
  ),
);
