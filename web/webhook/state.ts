/** The state of a delivery: its verdict or, where an agent was told of it, what that came to. */
export function stateOf(verdict: string, outcome: string | null): string {
  if (outcome === null || verdict !== 'accepted') return verdict;
  if (outcome === 'success') return 'succeeded';
  return outcome === 'pending' ? 'pending' : 'failed';
}
