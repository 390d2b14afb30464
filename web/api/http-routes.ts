/**
 * Where each operation is asked. The build works this table out and puts it in the place of this
 * file, so that nothing of the server gets into the page.
 */
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';

export interface Place {
  readonly method: string;
  /** With `:field` for what stands in it; `:field?` at its end may be left out. */
  readonly path: string;
  /** The one field that is the body; then all others are in the query. */
  readonly body?: string;
  readonly isDestroying?: true;
}

export const places: Readonly<Record<string, Place>> = Object.fromEntries(
  operations.flatMap(({ name, http, effect }) =>
    isOffered(http)
      ? [
          [
            name,
            {
              method: http.method,
              path: http.path,
              ...(http.body === undefined ? {} : { body: http.body }),
              ...(effect === 'destroy' ? { isDestroying: true as const } : {}),
            },
          ],
        ]
      : [],
  ),
);
