import { DuctileError } from '../base/errors.ts';
import type { Host } from './process.ts';

/** What plugins are made and tried with, beside the files that they are in. */
export interface Workshop {
  /** The directory of what they are made with. */
  readonly sdk: string;
  /** A host of processes of its own, not started yet. */
  readonly makeHost: () => Host;
  /** What a plugin finds in its environment. */
  readonly env: Readonly<Record<string, string>>;
}

/** A context, of which only this counts. */
interface Placed {
  readonly place?: { readonly workshop?: Workshop };
}

export function workshopOf({ place }: Placed): Workshop {
  if (place?.workshop !== undefined) return place.workshop;
  throw new DuctileError('INTERNAL', 'an operation on files has no workshop');
}
