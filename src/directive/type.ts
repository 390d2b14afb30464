import type * as z from 'zod';
import type { JsonObject } from '../base/json.ts';
import type { Role } from '../access/roles.ts';

/** What is known of a kind of directive without doing anything. */
export interface DirectiveType<Params extends object = JsonObject> {
  /** `<noun>.<verb>` */
  readonly type: string;
  readonly summary: string;
  /** What the caller's token must allow. */
  readonly scope: string;
  /** What the caller must at least be; its scopes alone decide unless told. */
  readonly role?: Role;
  readonly params: z.ZodType<Params>;
  /** It concerns all ledgers, so no token of a tenant may request it. */
  readonly isForRoot?: boolean;
  /** What of it cannot be undone, in a sentence; whatever has none is undone by its counterpart. */
  readonly lasting?: string;
  /** Only the process that is asked can do it, or only the caller may see the answer: it never waits. */
  readonly isImmediate?: boolean;
  /** Doing all of it again does only what is left, so it is begun anew when its process died. */
  readonly isRepeatable?: boolean;
  /** It keeps how far it is with each step: when its process stops, another one goes on there. */
  readonly isResumable?: boolean;
  /** When a request without a key is the same as an earlier one: see `Sameness`. */
  sameness(params: Params): 'toggle' | 'each' | 'latest';
  /** Which thing of its noun is changed; the empty text where there is only one. */
  target(params: Params): string;
}

export function nounOf(type: string): string {
  return type.slice(0, type.indexOf('.'));
}
