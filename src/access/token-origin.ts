import type { Role } from './roles.ts';

/** The creator of a token of the ledger. */
export interface TokenOrigin {
  readonly name: string;
  readonly role: Role;
  /** The actor of its `token.create`. */
  readonly createdBy: string;
}

/** Actors that are tokens. */
export const TOKEN_ACTOR = 'token:';

/**
 * True if two actors count as one person. They do if one created the other's token, directly or
 * through further tokens, or if both descend from the same token without an owner in between. An
 * owner gives tokens to other people; other callers only create more of their own.
 */
export function isSamePerson(a: string, b: string, origins: readonly TokenOrigin[]): boolean {
  const byActor = new Map(origins.map((one) => [`${TOKEN_ACTOR}${one.name}`, one]));
  const [ofA, ofB] = [a, b].map((actor) => lineageOf(actor, byActor));
  if (ofA?.all.includes(b) === true || ofB?.all.includes(a) === true) return true;
  return ofA?.person === ofB?.person;
}

interface Lineage {
  /** The actor and its chain of creators. */
  readonly all: readonly string[];
  /** The last one that only an owner can have created. */
  readonly person: string;
}

function lineageOf(actor: string, byActor: ReadonlyMap<string, TokenOrigin>): Lineage {
  const all = [actor];
  let person: string | undefined;
  for (let at = byActor.get(actor); at !== undefined;) {
    const { createdBy } = at;
    const creator = byActor.get(createdBy);
    // Tokens of the configuration, the command line and the operator create tokens only as owners.
    if (creator === undefined || creator.role === 'owner') person ??= all.at(-1);
    // Old rows may have reused names, so the chain can be circular.
    if (all.includes(createdBy)) break;
    all.push(createdBy);
    at = creator;
  }
  return { all, person: person ?? all.at(-1) ?? actor };
}
