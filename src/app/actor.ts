import { userInfo } from 'node:os';

/** The local operator has all rights; who it was is on record. */
export function localActor(): string {
  return `cli:${userInfo().username}`;
}
