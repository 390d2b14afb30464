import { readUserName } from '../base/account.ts';

/** The local operator has all rights; who it was is on record. */
export function localActor(): string {
  return `cli:${readUserName()}`;
}
