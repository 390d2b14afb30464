/** Current page. All choices of the user are in the address. */
export interface Route {
  readonly page: string;
  readonly id: string | undefined;
  readonly query: Readonly<Record<string, string>>;
}

const BASE = '/ui';

export function readRoute(path: string, search: string): Route {
  const [page = '', ...rest] = path.slice(BASE.length + 1).split('/');
  const id = rest
    .filter((part) => part !== '')
    .map(decode)
    .join('/');
  const query = Object.fromEntries(new URLSearchParams(search));
  return { page: page === '' ? 'overview' : page, id: id === '' ? undefined : id, query };
}

export interface Target {
  readonly id?: string | undefined;
  readonly query?: Readonly<Record<string, string | undefined>>;
}

export function link(page: string, { id, query = {} }: Target = {}): string {
  const parts = id === undefined ? [] : id.split('/').map(encodeURIComponent);
  const filled = Object.entries(query).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '',
  );
  const path = [BASE, ...(page === 'overview' ? [] : [page]), ...parts].join('/');
  return filled.length === 0 ? path : `${path}?${new URLSearchParams(filled).toString()}`;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
