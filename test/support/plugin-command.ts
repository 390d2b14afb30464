/** Runs commands of TypeScript plugins in this process. */
import {
  ConfigError,
  Failure,
  parseRequest,
  type Command,
} from '../../sdk/typescript/ductile-plugin.ts';
import { parseResponse } from '../../src/plugin/response.ts';
import { encodeParts, type OkResponse, type RequestParts } from './plugin-process.ts';

/** Returns the response as Ductile parses it. */
export async function commandOk(command: Command, parts: RequestParts): Promise<OkResponse> {
  const result = await command(parseRequest(encodeParts(parts)));
  const response = parseResponse(Buffer.from(JSON.stringify({ status: 'ok', ...result })));
  if (response.status === 'ok') return response;
  throw new Error(`it answered what the runtime does not take: ${JSON.stringify(response)}`);
}

export async function commandError(
  command: Command,
  parts: RequestParts,
): Promise<{
  readonly error: string;
  readonly retry: boolean;
  readonly retryAfterSeconds?: number | undefined;
  readonly code: number;
}> {
  try {
    await command(parseRequest(encodeParts(parts)));
  } catch (thrown) {
    if (thrown instanceof ConfigError) return { error: thrown.message, retry: false, code: 78 };
    if (thrown instanceof Failure) {
      const { message: error, retry, retryAfterSeconds } = thrown;
      return { error, retry, retryAfterSeconds, code: 0 };
    }
    throw thrown;
  }
  throw new Error('it did not fail');
}
