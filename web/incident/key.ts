/** What an incident is about, where that is `<plugin>/<command or schedule>`. */
export function placeOf(key: string): readonly [plugin: string, name: string] | undefined {
  const at = key.indexOf('/');
  return at < 1 ? undefined : [key.slice(0, at), key.slice(at + 1)];
}
