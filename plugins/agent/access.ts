/** Gives an agent its environment and a private directory that exists only during its run. */
import { rmSync, type Stats } from 'node:fs';
import { lstat, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiAccess } from '../../sdk/typescript/ductile-plugin.ts';
import { MCP_NAME } from './command-line.ts';
import { isOwnerGone, ownMark } from './owner.ts';

/** Programs, files, language and time. By the last the service finds what an agent left running. */
const PASSED = /^(PATH|HOME|USER|LOGNAME|TZ|LANG|LANGUAGE|LC_[A-Z]+|DUCTILE_ATTEMPT)$/;

const PREFIX = 'ductile-agent-';
/** Names the process that made the directory, so that a later run knows whether it is abandoned. */
const OWNER_FILE = '.owner';
/** Longer than any run: for directories of which it is unknown whether their owner runs. */
const USED_MS_MAX = 2 * 86_400_000;

export interface PrivateFiles {
  readonly directory: string;
  /** Claude's file about our MCP server; it contains the token of the run. */
  readonly mcpFile: string | undefined;
  /** The prompt, for a program that wants it in a file. */
  readonly promptFile: string | undefined;
}

export interface PrivateContents {
  readonly api: ApiAccess | undefined;
  readonly prompt: string | undefined;
}

export function makeEnvironment(
  own: Readonly<Record<string, string>>,
  api: ApiAccess | undefined,
  directory: string,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && PASSED.test(name)) env[name] = value;
  }
  const access =
    api === undefined
      ? {}
      : { DUCTILE_URL: api.url, DUCTILE_TOKEN: api.token, DUCTILE_MCP_URL: api.mcpUrl };
  return { ...env, TMPDIR: directory, ...own, ...access };
}

/**
 * Makes a directory that only this user may enter, and removes it when the run ends. A run that is
 * killed can't remove it; the next run does. Its token is revoked with the attempt.
 */
export async function withPrivateDirectory<T>(
  contents: PrivateContents,
  use: (files: PrivateFiles) => Promise<T>,
): Promise<T> {
  await sweep();
  const directory = await mkdtemp(join(tmpdir(), PREFIX));
  const remove = (): void => removeNow(directory);
  // Even if the plugin is stopped meanwhile.
  process.once('exit', remove);
  try {
    await writePrivate(directory, OWNER_FILE, ownMark());
    return await use(await writeContents(directory, contents));
  } finally {
    process.off('exit', remove);
    remove();
  }
}

async function writeContents(
  directory: string,
  { api, prompt }: PrivateContents,
): Promise<PrivateFiles> {
  const mcpFile =
    api === undefined ? undefined : await writePrivate(directory, 'mcp.json', describeServers(api));
  const promptFile =
    prompt === undefined ? undefined : await writePrivate(directory, 'prompt.txt', prompt);
  return { directory, mcpFile, promptFile };
}

function describeServers({ token, mcpUrl }: ApiAccess): string {
  const headers = { Authorization: `Bearer ${token}` };
  return JSON.stringify({ mcpServers: { [MCP_NAME]: { type: 'http', url: mcpUrl, headers } } });
}

async function writePrivate(directory: string, name: string, text: string): Promise<string> {
  const file = join(directory, name);
  await writeFile(file, text, { mode: 0o600, flag: 'wx' });
  return file;
}

/** An agent can make its own files unremovable; its result must not be lost for that. */
function removeNow(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch (error) {
    process.stderr.write(`cannot remove ${directory}: ${String(error)}\n`);
  }
}

/** Removes the directories of runs that were killed. */
export async function sweep(): Promise<void> {
  const names = await readdir(tmpdir()).catch(() => []);
  for (const name of names.filter((one) => one.startsWith(PREFIX))) {
    const directory = join(tmpdir(), name);
    const found = await lstat(directory).catch(() => undefined);
    if (found === undefined || !isOurs(found)) continue;
    const mark = await readFile(join(directory, OWNER_FILE), 'utf8').catch(() => '');
    const isAbandoned = isOwnerGone(mark) ?? Date.now() - found.mtimeMs > USED_MS_MAX;
    if (isAbandoned) await rm(directory, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Any user can create such a name in a shared directory. Only its owner removes it. */
function isOurs(found: Stats): boolean {
  return found.isDirectory() && found.uid === process.getuid?.();
}
