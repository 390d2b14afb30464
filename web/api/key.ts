/** A key that nobody else makes. Not `randomUUID`: without https, browsers keep that from all but loopback. */
export function makeKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
