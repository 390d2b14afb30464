/**
 * The type that a body is declared to have, in lower case and whatever its parameters say; undefined
 * when it is none, or in another charset than UTF-8.
 */
export function typeIn(contentType: string): string | undefined {
  const [type = ''] = /^[\w.+-]+\/[\w.+-]+/.exec(contentType) ?? [];
  let rest = contentType.slice(type.length);
  for (let found = PARAMETER.exec(rest); found !== null; found = PARAMETER.exec(rest)) {
    const [whole, name = '', value = ''] = found;
    if (name.toLowerCase() === 'charset' && !UTF_8.test(value)) return undefined;
    rest = rest.slice(whole.length);
  }
  return type === '' || rest.trim() !== '' ? undefined : type.toLowerCase();
}

const PARAMETER = /^\s*;\s*(?:([\w!#$&^.+-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s",;]+))?/;
const UTF_8 = /^(?:utf-?8|"utf-?8")$/i;
