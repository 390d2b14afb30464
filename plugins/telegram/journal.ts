/**
 * Records sent parts in one small file per job, so that a repeated attempt doesn't send them again.
 * Telegram has no idempotency keys, and a plugin's state is stored only after a success.
 */
import { createHash } from 'node:crypto';
import { appendFile, lstat, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure } from '../../sdk/typescript/ductile-plugin.ts';

export interface Journal {
  has(part: string): boolean;
  add(part: string): Promise<void>;
}

const KEPT_MS = 2 * 86_400_000;
const SWEPT_MAX = 200;

export async function openJournal(
  directory: string,
  botId: string,
  idempotencyKey: string,
): Promise<Journal> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { uid, mode } = await lstat(directory);
  // In a shared temporary directory, another user may have created it first.
  if (uid !== process.getuid?.() || (mode & 0o022) !== 0) {
    throw new Failure(`${directory} is not ours alone; set config.journal_dir`, false);
  }
  await sweep(directory);
  const digest = createHash('sha256').update(`${botId}\n${idempotencyKey}`).digest('hex');
  const file = join(directory, digest);
  const lines = (await readFile(file, 'utf8').catch(() => '')).split('\n');
  const sent = new Set(lines);
  return {
    has: (part) => sent.has(part),
    async add(part) {
      sent.add(part);
      await appendFile(file, `${part}\n`, { mode: 0o600 });
    },
  };
}

async function sweep(directory: string): Promise<void> {
  const names = await readdir(directory);
  for (const name of names.filter((entry) => /^[0-9a-f]{64}$/.test(entry)).slice(0, SWEPT_MAX)) {
    const path = join(directory, name);
    const at = await stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => Date.now(),
    );
    if (Date.now() - at > KEPT_MS) await rm(path, { force: true });
  }
}
