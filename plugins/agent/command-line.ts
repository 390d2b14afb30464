/**
 * Builds the command line for one prompt. Prompts go to standard input: every user of the machine
 * can read the arguments of a process.
 */
import type { ApiAccess } from '../../sdk/typescript/ductile-plugin.ts';
import { AgentFailure } from './outcome.ts';
import type { Choice, PermissionMode } from './settings.ts';
import type { PrivateFiles } from './access.ts';
import { PLACEHOLDER, type Provider } from './providers.ts';

export interface Ask extends Choice, Pick<PrivateFiles, 'mcpFile' | 'promptFile'> {
  readonly prompt: string;
  readonly permissionMode: PermissionMode;
  /** Session to continue; undefined starts a new one. */
  readonly session: string | undefined;
  /** True if the session is stored. */
  readonly isKept: boolean;
  readonly api: ApiAccess | undefined;
}

export interface CommandLine {
  readonly argv: readonly [program: string, ...rest: string[]];
  readonly stdin: string;
}

/** Name of the MCP server, which is part of the names of its tools. */
export const MCP_NAME = 'ductile';
/** Makes codex ignore the settings of the logged-in user. */
const IGNORE_CONFIG = '--ignore-user-config';
/** Makes codex read the prompt from standard input. */
const STDIN_PROMPT = '-';

const SANDBOXES: Readonly<Record<PermissionMode, readonly string[]>> = {
  default: ['--sandbox', 'read-only'],
  plan: ['--sandbox', 'read-only'],
  dontAsk: ['--sandbox', 'read-only'],
  acceptEdits: ['--sandbox', 'workspace-write'],
  bypassPermissions: ['--dangerously-bypass-approvals-and-sandbox'],
};

export function toCommandLine(ask: Ask): CommandLine {
  if (ask.provider.kind === 'claude') return toClaude(ask);
  return ask.provider.kind === 'codex' ? toCodex(ask) : toOther(ask);
}

function toClaude(ask: Ask): CommandLine {
  const { session, mcpFile } = ask;
  const begun = ask.isKept ? [] : ['--no-session-persistence'];
  const options = [
    '-p',
    ...option('--output-format', 'json'),
    ...option('--model', ask.model),
    ...option('--effort', ask.effort),
    ...option('--permission-mode', ask.permissionMode),
    ...(session === undefined ? begun : ['--resume', session]),
    // MCP servers of the logged-in user aren't for an unattended run.
    '--strict-mcp-config',
    ...(mcpFile === undefined
      ? []
      : ['--mcp-config', mcpFile, '--allowedTools', `mcp__${MCP_NAME}`]),
    ...ask.parameters,
  ];
  // Without a prompt among its arguments, `claude -p` reads it from standard input.
  return { argv: join(ask.provider.command, options), stdin: ask.prompt };
}

function toCodex(ask: Ask): CommandLine {
  const { session, api } = ask;
  const options = [
    'exec',
    '--json',
    ...option('--color', 'never'),
    '--skip-git-repo-check',
    // The user's settings contain MCP servers that aren't for an unattended run; the login is elsewhere.
    IGNORE_CONFIG,
    ...SANDBOXES[ask.permissionMode],
    ...option('--model', ask.model),
    ...(ask.effort === undefined ? [] : option('-c', `model_reasoning_effort=${ask.effort}`)),
    ...(api === undefined ? [] : toCodexServer(api)),
    // Codex takes it only once.
    ...ask.parameters.filter((parameter) => parameter !== IGNORE_CONFIG),
    ...(session === undefined ? [] : ['resume', session]),
  ];
  return { argv: join(ask.provider.command, options, [STDIN_PROMPT]), stdin: ask.prompt };
}

/** Codex takes the token from its environment, so no file is needed. */
function toCodexServer({ mcpUrl }: ApiAccess): string[] {
  const key = `mcp_servers.${MCP_NAME}`;
  return [
    ...option('-c', `${key}.url=${JSON.stringify(mcpUrl)}`),
    ...option('-c', `${key}.bearer_token_env_var="DUCTILE_TOKEN"`),
  ];
}

function toOther(ask: Ask): CommandLine {
  const { model, effort, session } = ask;
  const pattern = choosePattern(ask.provider, session);
  checkPlaces(ask, pattern);
  const values = { prompt: ask.prompt, prompt_file: ask.promptFile, model, effort, session };
  const hasPrompt = hasPlaceholder(pattern, 'prompt') || hasPlaceholder(pattern, 'prompt_file');
  const filled = pattern.map((part) => {
    const whole = part.replaceAll(PLACEHOLDER, (_match, name: keyof typeof values) => {
      return values[name] ?? '';
    });
    // A value must not become an option.
    return whole.startsWith('-') && !part.startsWith('-') ? ` ${whole}` : whole;
  });
  const end = filled.indexOf('--');
  const at = end === -1 ? filled.length : end;
  return {
    argv: join(filled.slice(0, at), ask.parameters, filled.slice(at)),
    stdin: hasPrompt ? '' : ask.prompt,
  };
}

export function wantsPromptFile(provider: Provider, session: string | undefined): boolean {
  return hasPlaceholder(choosePattern(provider, session), 'prompt_file');
}

function choosePattern(
  { command, resume = command }: Provider,
  session: string | undefined,
): readonly string[] {
  return session === undefined ? command : resume;
}

function hasPlaceholder(pattern: readonly string[], name: string): boolean {
  return pattern.some((part) => part.includes(`{${name}}`));
}

/** Throws if the command has no placeholder for a requested model or effort, or lacks a value for a placeholder. */
function checkPlaces({ provider, model, effort }: Ask, pattern: readonly string[]): void {
  for (const [name, value, what] of [
    ['model', model, 'model'],
    ['effort', effort, 'reasoning_effort'],
  ] as const) {
    const hasPlace = hasPlaceholder(pattern, name);
    if (hasPlace === (value !== undefined)) continue;
    throw new AgentFailure(
      'exception',
      hasPlace
        ? `the command of ${provider.name} has {${name}}, and no ${what} is set`
        : `${provider.name} takes no ${what}: its command has no {${name}}`,
    );
  }
}

function option(name: string, value: string | undefined): string[] {
  return value === undefined ? [] : [name, value];
}

function join(command: readonly string[], ...more: (readonly string[])[]): CommandLine['argv'] {
  const [program = '', ...rest] = command;
  return [program, ...rest, ...more.flat()];
}
