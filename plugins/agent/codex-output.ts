/** Parses `codex exec --json`: one event per line. Text before a tool call isn't the result. */
import { isObject, type Json, type JsonObject } from '../../sdk/typescript/ductile-plugin.ts';
import { nothing, parseJson, rawText, toSession, toUsage, type ParsedOutput } from './parsed.ts';

const TOOLS = new Set([
  'command_execution',
  'file_change',
  'web_search',
  'todo_list',
  'mcp_tool_call',
]);

export function parseCodex(stdout: string): ParsedOutput {
  const reading = new Reading();
  for (const line of stdout.split('\n')) {
    const event = line.trimStart().startsWith('{') ? parseJson(line) : undefined;
    if (isObject(event)) reading.take(event);
  }
  return reading.understood ? reading.parsed() : { ...nothing, text: rawText(stdout) };
}

class Reading {
  /** True if any line was an event; otherwise the output is shown as it is. */
  understood = false;
  readonly #texts: string[] = [];
  #session: string | undefined;
  #fault: string | undefined;
  #usage: JsonObject | undefined;
  #isUsageFinal = false;

  take(event: JsonObject): void {
    const { type, item } = event;
    this.understood ||= typeof type === 'string';
    this.#session ??= toSession(event['thread_id']);
    this.#takeUsage(event);
    if (isObject(item)) this.#takeItem(type, item);
    if (type === 'message' && event['role'] === 'assistant') this.#say(blocksOf(event['content']));
    if (type === 'error') this.#fault = toMessage(event) ?? this.#fault;
    if (type === 'turn.failed') this.#fault = toMessage(event['error']) ?? 'the turn failed';
    // Earlier errors didn't prevent the turn.
    if (type === 'turn.completed') this.#fault = undefined;
  }

  parsed(): ParsedOutput {
    return {
      ...nothing,
      text: this.#texts.join('\n\n').trim(),
      session: this.#session,
      fault: this.#fault,
      usage: this.#usage,
    };
  }

  #takeItem(type: Json | undefined, item: JsonObject): void {
    const kind = item['type'];
    if (type === 'item.started' && typeof kind === 'string' && TOOLS.has(kind)) {
      this.#texts.length = 0;
    }
    if (type !== 'item.completed') return;
    if (kind === 'message' && item['role'] === 'assistant') this.#say(blocksOf(item['content']));
    else if (kind === 'agent_message' || kind === undefined) this.#say(item['text']);
  }

  #takeUsage(event: JsonObject): void {
    const isFinal = event['type'] === 'turn.completed';
    const usage = toUsage(event['usage']);
    if (usage === undefined || (this.#isUsageFinal && !isFinal)) return;
    this.#usage = usage;
    this.#isUsageFinal = isFinal;
  }

  #say(text: Json | undefined): void {
    if (typeof text === 'string' && text.trim() !== '') this.#texts.push(text.trim());
  }
}

function blocksOf(content: Json | undefined): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .flatMap((block) => (isObject(block) && typeof block['text'] === 'string' ? block['text'] : []))
    .join('\n');
}

function toMessage(value: Json | undefined): string | undefined {
  return isObject(value) && typeof value['message'] === 'string' ? value['message'] : undefined;
}
