/** Ends of an agent's run, with the words that webhooks and schedules recognize. */
import {
  ConfigError,
  Failure,
  messageOf,
  type Answer,
  type Request,
} from '../../sdk/typescript/ductile-plugin.ts';

type Word =
  | 'no_task_folder'
  | 'folder_missing'
  | `cli_not_found_${string}`
  | 'timeout'
  | `exit_${number}`
  | 'no_response'
  | 'exception';

const DETAIL_CHARACTERS_MAX = 500;

/** Failure without a retry once the agent was asked: it would repeat the finished half of its work. */
export class AgentFailure extends Failure {
  constructor(word: Word, detail: string, retry = false) {
    const text = detail.trim();
    const short =
      text.length > DETAIL_CHARACTERS_MAX ? `${text.slice(0, DETAIL_CHARACTERS_MAX)}…` : text;
    super(short === '' ? `error:${word}` : `error:${word}: ${short}`, retry);
  }
}

/** Adds the right word to any other failure of a command. */
export function withWords(
  command: (request: Request) => Promise<Answer>,
): (request: Request) => Promise<Answer> {
  return async (request) => {
    try {
      return await command(request);
    } catch (thrown) {
      if (thrown instanceof AgentFailure) throw thrown;
      if (thrown instanceof ConfigError) {
        throw new ConfigError(`error:exception: ${thrown.message}`, { cause: thrown });
      }
      throw new AgentFailure('exception', messageOf(thrown));
    }
  };
}
