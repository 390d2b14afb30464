/** Reads the output of an agent in any format. No output makes it throw. */
import { parseClaude } from './claude-output.ts';
import { parseCodex } from './codex-output.ts';
import { nothing, type ParsedOutput } from './parsed.ts';
import type { Provider } from './providers.ts';

export function parseOutput(format: Provider['output'], stdout: string): ParsedOutput {
  if (format === 'text') return { ...nothing, text: stdout.trim() };
  return format === 'claude' ? parseClaude(stdout) : parseCodex(stdout);
}
