/** How a run of an agent ends, in the words that webhooks, schedules and people look for. */
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

/** Not tried again if it was asked: an agent that did half of its work would do that half twice. */
export class Ended extends Failure {
  constructor(word: Word, detail: string, retry = false) {
    const said = detail.trim();
    const short =
      said.length > DETAIL_CHARACTERS_MAX ? `${said.slice(0, DETAIL_CHARACTERS_MAX)}…` : said;
    super(short === '' ? `error:${word}` : `error:${word}: ${short}`, retry);
  }
}

/** Whatever else goes wrong in a command ends with the word for that. */
export function withWords(
  command: (request: Request) => Promise<Answer>,
): (request: Request) => Promise<Answer> {
  return async (request) => {
    try {
      return await command(request);
    } catch (thrown) {
      if (thrown instanceof Ended) throw thrown;
      if (thrown instanceof ConfigError) {
        throw new ConfigError(`error:exception: ${thrown.message}`, { cause: thrown });
      }
      throw new Ended('exception', messageOf(thrown));
    }
  };
}
