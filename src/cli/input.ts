import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { CliIo } from './host.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';

/** Reads a file, or standard input for `-`. */
export async function readSource(file: string, io: CliIo): Promise<string> {
  return file === '-' ? readStdin(io) : decode(await readFile(resolve(io.cwd, file)));
}

async function readStdin({ stdin }: CliIo): Promise<string> {
  return decode(await buffer(stdin));
}

/** A byte order mark is kept, so that the parser sees it. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Refuses invalid UTF-8, which would silently become other characters. */
function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new Error('it is not UTF-8 text', { cause });
  }
}

/**
 * Reads a secret from standard input, or asks for it without showing it. A secret is never an
 * argument, because other users can see arguments and shells remember them. A newline at its end
 * isn't part of it.
 */
export async function readSecret(field: string, io: CliIo): Promise<string> {
  const given = io.isInTTY ? await askHidden(field, io) : await readPiped(field, io);
  if (given.length > limits.requestBytesMax) {
    throw new DuctileError('PAYLOAD_TOO_LARGE', `the ${field} is too large`);
  }
  const value = given.replace(/\r?\n$/, '');
  if (value !== '') return value;
  throw new DuctileError('INPUT_INVALID', `the ${field} is empty`, {
    place: field,
    hint: 'Pass it through standard input: `… < file`, or type it at the prompt.',
  });
}

async function readPiped(field: string, io: CliIo): Promise<string> {
  try {
    return await readStdin(io);
  } catch (thrown) {
    throw new DuctileError('INPUT_INVALID', `the ${field} cannot be read: ${messageOf(thrown)}`, {
      place: field,
      hint: 'Encode binary data as text, such as base64, in the form that its reader expects.',
    });
  }
}

const ENTER = /[\r\n]/;
const CONTROL_C = '\u0003';
const CONTROL_D = '\u0004';
const ERASE = /[\u007f\b]/;

async function askHidden(field: string, io: CliIo): Promise<string> {
  io.stderr.write(`${field} (not shown): `);
  io.setHidden(true);
  let typed: string[] = [];
  // Runs before the loop ends, because that closes the terminal's input.
  const show = (): void => {
    io.setHidden(false);
    io.stderr.write('\n');
  };
  for await (const chunk of io.stdin) {
    for (const char of chunk.toString()) {
      if (char === CONTROL_C || char === CONTROL_D || ENTER.test(char)) show();
      if (char === CONTROL_C) throw new DuctileError('INPUT_INVALID', `no ${field} was given`);
      if (char === CONTROL_D || ENTER.test(char)) return typed.join('');
      typed = ERASE.test(char) ? typed.slice(0, -1) : [...typed, char];
    }
  }
  show();
  return typed.join('');
}
