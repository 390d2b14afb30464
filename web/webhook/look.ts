interface Look {
  /** The state whose colour and shape it has. */
  readonly value: string;
  readonly says: string;
}

/** A delivery by its verdict and, where an agent was told of it, what that came to. */
export function lookOf(verdict: string, outcome: string | null): Look {
  if (outcome === null || verdict !== 'accepted') return { value: verdict, says: verdict };
  return { value: stateOf(outcome), says: `${verdict}, ${outcome}` };
}

function stateOf(outcome: string): string {
  if (outcome === 'success') return 'succeeded';
  return outcome === 'pending' ? 'pending' : 'failed';
}
