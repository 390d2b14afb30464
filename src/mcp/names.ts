import { createHash } from 'node:crypto';
import { limits } from '../base/limits.ts';

/** `run.retry-from` is the tool `run_retry_from`. */
export function operationToolName(operation: string): string {
  return operation.replaceAll(/[.-]/g, '_');
}

const SUFFIX_CHARS = 7;

/**
 * `run_<plugin>_<command>`. It depends on nothing else that is there, so it stays the same when plugins
 * come and go. What cannot stand so, because it is too long, has other signs or could be read in two
 * ways, gets a digest of both names at its end.
 */
export function commandToolName(
  plugin: string,
  command: string,
  isTaken: (name: string) => boolean,
): string {
  const plain = `run_${plugin}_${command}`;
  const isPlain =
    /^[\w-]+$/.test(plain) && !plugin.includes('_') && plain.length <= limits.toolNameCharsMax;
  if (isPlain && !isTaken(plain)) return plain;
  const digest = createHash('sha256').update(`${plugin}\n${command}`).digest('hex');
  const stem = plain.replaceAll(/[^\w-]/g, '_').slice(0, limits.toolNameCharsMax - SUFFIX_CHARS);
  return `${stem}_${digest.slice(0, SUFFIX_CHARS - 1)}`;
}
