/** What an agent is given to reach us: variables, and for claude a file about the MCP server. */
import { rmSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiAccess } from '../../sdk/typescript/ductile-plugin.ts';
import { MCP_NAME } from './command-line.ts';
import { isOwnerGone, ownMark } from './owner.ts';

/** Programs, files, language and time. The last is how the runtime finds what an agent left running. */
const PASSED = /^(PATH|HOME|USER|LOGNAME|TZ|LANG|LANGUAGE|LC_[A-Z]+|TMPDIR|DUCTILE_ATTEMPT)$/;

const PREFIX = 'ductile-mcp-';
/** Longer than any run: for files of which it is not known whether their owner runs. */
const USED_MS_MAX = 2 * 86_400_000;

export function makeEnvironment(
  own: Readonly<Record<string, string>>,
  api: ApiAccess | undefined,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && PASSED.test(name)) env[name] = value;
  }
  const access =
    api === undefined
      ? {}
      : { DUCTILE_URL: api.url, DUCTILE_TOKEN: api.token, DUCTILE_MCP_URL: api.mcpUrl };
  return { ...env, ...own, ...access };
}

/** The file is for its owner alone and there only while it is used: the token stands in it. */
export async function withMcpFile<T>(
  api: ApiAccess | undefined,
  use: (file: string | undefined) => Promise<T>,
): Promise<T> {
  await sweep();
  if (api === undefined) return use(undefined);
  const directory = await mkdtemp(join(tmpdir(), `${PREFIX}${ownMark()}-`));
  const file = join(directory, 'mcp.json');
  const remove = (): void => rmSync(directory, { recursive: true, force: true });
  // Also when we are told to end in the midst of it.
  process.once('exit', remove);
  const headers = { Authorization: `Bearer ${api.token}` };
  const servers = { [MCP_NAME]: { type: 'http', url: api.mcpUrl, headers } };
  try {
    await writeFile(file, JSON.stringify({ mcpServers: servers }), { mode: 0o600, flag: 'wx' });
    return await use(file);
  } finally {
    process.off('exit', remove);
    remove();
  }
}

/** Removes what those left who were killed in the midst of it. */
async function sweep(): Promise<void> {
  const names = await readdir(tmpdir()).catch(() => []);
  for (const name of names.filter((one) => one.startsWith(PREFIX))) {
    const directory = join(tmpdir(), name);
    const mark = name.slice(PREFIX.length, name.lastIndexOf('-'));
    const isLeft = isOwnerGone(mark) ?? (await isOld(directory));
    // What belongs to another user is for that one to sweep.
    if (isLeft) await rm(directory, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function isOld(directory: string): Promise<boolean> {
  const { mtimeMs } = await stat(directory).catch(() => ({ mtimeMs: Date.now() }));
  return Date.now() - mtimeMs > USED_MS_MAX;
}
