/** What an agent is given to reach us: variables, and for claude a file about the MCP server. */
import { rmSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiAccess } from '../../sdk/typescript/ductile-plugin.ts';
import { MCP_NAME } from './command-line.ts';

/** Programs, files, language and time. The last is how the runtime finds what an agent left running. */
const PASSED = /^(PATH|HOME|USER|LOGNAME|TZ|LANG|LANGUAGE|LC_[A-Z]+|TMPDIR|DUCTILE_ATTEMPT)$/;

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
  if (api === undefined) return use(undefined);
  const directory = await mkdtemp(join(tmpdir(), 'ductile-mcp-'));
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
