import type { HttpRoute } from './http-routes.ts';

export interface Request {
  readonly method: string;
  readonly url: string;
  readonly body: string | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/** Puts each field of an input into the path, the query or the body. */
export function toRequest({ method, path, body }: HttpRoute, input: Fields): Request {
  const left = new Map(Object.entries(input).filter(([, value]) => value !== undefined));
  const segments = path.split('/').flatMap((word) => {
    if (!word.startsWith(':')) return [word];
    const name = word.slice(1).replace('?', '');
    const value = left.get(name);
    left.delete(name);
    return value === undefined ? [] : [encodeURIComponent(asText(value))];
  });
  const content = body === undefined ? undefined : left.get(body);
  if (body !== undefined) left.delete(body);
  const isInBody = body === undefined && method !== 'GET' && method !== 'DELETE';
  const query = isInBody ? '' : toQuery(left);
  return {
    method,
    url: `${segments.join('/')}${query === '' ? '' : `?${query}`}`,
    body: isInBody
      ? JSON.stringify(Object.fromEntries(left))
      : content === undefined
        ? undefined
        : JSON.stringify({ [body ?? '']: content }),
  };
}

function toQuery(fields: ReadonlyMap<string, unknown>): string {
  return new URLSearchParams(
    [...fields].map(([name, value]): [string, string] => [name, asText(value)]),
  ).toString();
}

function asText(value: unknown): string {
  if (Array.isArray(value)) return value.map(String).join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
