import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { CliIo } from './host.ts';

/** What a file holds, or what comes through standard input for `-`. */
export async function readSource(file: string, io: CliIo): Promise<string> {
  return file === '-' ? readStdin(io) : decode(await readFile(resolve(io.cwd, file)));
}

export async function readStdin({ stdin }: CliIo): Promise<string> {
  return decode(await buffer(stdin));
}

/** A byte order mark stays, so that who reads it finds it. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Otherwise other bytes would become other signs without a word. */
function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new Error('it is not text in UTF-8', { cause });
  }
}
