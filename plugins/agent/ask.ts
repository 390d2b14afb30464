/** Sends one prompt to one agent, and returns its text or its failure. */
import type { JsonObject, Request } from '../../sdk/typescript/ductile-plugin.ts';
import { makeEnvironment, withPrivateDirectory } from './access.ts';
import { toCommandLine, wantsPromptFile } from './command-line.ts';
import { AgentFailure } from './outcome.ts';
import { parseOutput } from './output.ts';
import type { ParsedOutput } from './parsed.ts';
import { runProgram, STDOUT_BYTES_MAX, type ProgramEnd } from './process.ts';
import type { Provider } from './providers.ts';
import type { Choice, Settings } from './settings.ts';

export interface Question {
  readonly prompt: string;
  readonly choice: Choice;
  readonly session: string | undefined;
  readonly isKept: boolean;
  readonly cwd: string;
}

export interface AgentResult extends Pick<ParsedOutput, 'text' | 'session'> {
  /** Data for the event: the provider and the usage. */
  readonly details: JsonObject;
  readonly isTruncated: boolean;
}

/** Limit for the text, which leaves space for JSON escapes in an event. */
const TEXT_CHARACTERS_MAX = 60_000;
export const RUN_MS_MAX = 86_400_000;
/** Minimum time for a result. */
const ANSWER_MS_MIN = 10_000;
/** Time between the plugin's deadline and the service's, to end the agent and to respond. */
const MARGIN_MS = 2500;

export async function askAgent(
  question: Question,
  settings: Settings,
  request: Pick<Request, 'api' | 'msLeft'>,
): Promise<AgentResult> {
  const { provider } = question.choice;
  const end = await run(question, settings, request);
  if (end.kind === 'unstarted') throw unstarted(provider, end.code);
  if (end.kind === 'timeout') throw new AgentFailure('timeout', `${provider.name} was stopped`);
  if (end.kind === 'overflow') {
    throw new AgentFailure(
      'exception',
      `${provider.name} wrote more than ${STDOUT_BYTES_MAX} bytes`,
    );
  }
  const parsed = parseOutput(provider.output, end.stdout.toWellFormed());
  if (end.code !== 0) {
    const detail = [parsed.fault, parsed.text, end.stderr].find((text) => text?.trim());
    throw new AgentFailure(`exit_${end.code}`, detail ?? '');
  }
  if (parsed.fault !== undefined) throw new AgentFailure('exception', parsed.fault);
  return toTold(provider, parsed);
}

/** Returns the minimum time for a result, depending on the remaining time. */
export function leastMsOf(leftMs: number): number {
  return Math.min(ANSWER_MS_MIN, leftMs / 2);
}

function run(
  { choice, prompt, session, isKept, cwd }: Question,
  { permissionMode, env }: Settings,
  { api, msLeft }: Pick<Request, 'api' | 'msLeft'>,
): Promise<ProgramEnd> {
  const { provider } = choice;
  const input = { prompt: prompt.toWellFormed(), session, isKept };
  const contents = {
    api: provider.kind === 'claude' ? api : undefined,
    prompt: wantsPromptFile(provider, session) ? input.prompt : undefined,
  };
  return withPrivateDirectory(contents, (files) => {
    const line = toCommandLine({ ...choice, ...input, ...files, permissionMode, api });
    const left = msLeft(RUN_MS_MAX);
    const marginMs = Math.min(MARGIN_MS, left * 0.3);
    const times = { timeoutMs: left - marginMs, graceMs: marginMs * 0.6 };
    return runProgram({ line, cwd, env: makeEnvironment(env, api, files.directory), ...times });
  });
}

function unstarted({ name, command }: Provider, code: string): AgentFailure {
  const [program = ''] = command;
  if (code === 'E2BIG') {
    return new AgentFailure(
      'exception',
      'the prompt is too long for an argument; replace {prompt} in its command by {prompt_file}',
    );
  }
  return new AgentFailure(`cli_not_found_${name}`, `'${program}' cannot be run (${code})`);
}

function toTold(provider: Provider, parsed: ParsedOutput): AgentResult {
  const { text: whole, session, usage, costUsd } = parsed;
  const isTruncated = whole.length > TEXT_CHARACTERS_MAX;
  const text = isTruncated ? `${whole.slice(0, TEXT_CHARACTERS_MAX)}…` : whole;
  return {
    // The ledger refuses U+0000, and the text may be cut within a character.
    text: text.toWellFormed().replaceAll('\0', '\uFFFD'),
    session,
    isTruncated,
    details: {
      provider: provider.name,
      ...(isTruncated ? { truncated: true } : {}),
      ...(costUsd === undefined ? {} : { cost_usd: costUsd }),
      ...(usage === undefined ? {} : { usage }),
    },
  };
}

/** Returns `success` and the usage, if it is known. */
export function summarize({ text, details }: AgentResult): string {
  const { cost_usd: cost, usage } = details;
  const counts = typeof usage === 'object' && usage !== null && !Array.isArray(usage) ? usage : {};
  const parts = [
    `${text.length} characters`,
    ...(typeof counts['output_tokens'] === 'number' ? [`${counts['output_tokens']} tokens`] : []),
    ...(typeof cost === 'number' ? [`$${cost.toFixed(4)}`] : []),
  ];
  return `success: ${parts.join(', ')}`;
}
