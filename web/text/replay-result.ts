interface ReplayResult {
  readonly jobs: number;
  readonly runs: number;
}

export function formatReplayResult({ jobs, runs }: ReplayResult): string {
  const parts = [plural(jobs, 'job'), plural(runs, 'run')].filter((part) => part !== undefined);
  return `Replayed: ${parts.join(' and ') || 'no jobs or runs'} created`;
}

function plural(many: number, one: string): string | undefined {
  if (many === 0) return undefined;
  return `${many} ${one}${many === 1 ? '' : 's'}`;
}
