import { readUserName } from '../base/account.ts';

/** Names the local operator, who has all rights, for the records. */
export function localActor(): string {
  return `cli:${readUserName()}`;
}
