/** Agents for tests: the official client over HTTP, and a parser for tool results. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { onTestFinished } from 'vitest';
import { isObject, type JsonObject } from '../../src/base/json.ts';

export interface ToolResult {
  readonly isError: boolean;
  readonly text: string;
  /** JSON between the markers. */
  readonly data: JsonObject;
}

export interface Agent {
  readonly client: Client;
  readonly names: () => Promise<string[]>;
  readonly call: (name: string, input?: JsonObject) => Promise<ToolResult>;
}

/** Connects an agent to an API until the end of the test. */
export async function connect(url: string, token: string): Promise<Agent> {
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return toAgent(client);
}

export function toAgent(client: Client): Agent {
  return {
    client,
    names: async () => (await client.listTools()).tools.map(({ name }) => name),
    async call(name, input = {}) {
      const { content, isError } = await client.callTool({ name, arguments: input });
      const [first] = content;
      const text = first?.type === 'text' ? first.text : '';
      return { isError: isError === true, text, data: readData(text) };
    },
  };
}

const FRAME = /^[^\n]+\n=== data (\w{20}) ===\n([^\n]*)\n=== end of data \1 ===$/;

/** Returns the JSON between the markers; throws if there is other text. */
export function readData(text: string): JsonObject {
  const json = FRAME.exec(text)?.[2];
  const data: unknown = json === undefined ? undefined : JSON.parse(json);
  if (isObject(data)) return data;
  throw new Error(`no data between two markers in: ${text}`);
}
