/** Returns the state of a delivery: its verdict, or the outcome of an accepted one. */
export function stateOf(verdict: string, outcome: string | null): string {
  if (outcome === null || verdict !== 'accepted') return verdict;
  if (outcome === 'success') return 'succeeded';
  if (outcome.startsWith('error:')) return 'failed';
  return outcome.startsWith('skipped:') ? 'skipped' : outcome;
}
