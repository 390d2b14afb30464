interface SseEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

/** Reads a stream of server-sent events piece by piece, and returns the events that are complete. */
export function makeSseReader(): (piece: string) => SseEvent[] {
  let rest = '';
  return (piece) => {
    const parts = (rest + piece).split(/\r?\n\r?\n/);
    rest = parts.pop() ?? '';
    return parts.flatMap(readFrame);
  };
}

function readFrame(text: string): SseEvent[] {
  const fields = text.split(/\r?\n/).map((line) => {
    const at = line.indexOf(':');
    return [line.slice(0, Math.max(at, 0)), line.slice(at + 1).replace(/^ /, '')] as const;
  });
  const data = fields.filter(([name]) => name === 'data').map(([, value]) => value);
  if (data.length === 0) return [];
  const last = (wanted: string) => fields.findLast(([name]) => name === wanted)?.[1];
  return [{ id: last('id'), event: last('event') ?? 'message', data: data.join('\n') }];
}
