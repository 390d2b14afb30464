import type { Json } from '../../base/json.ts';
import { evaluate } from '../language/condition.ts';
import { PipelineFault } from '../language/fault.ts';
import type { Graph } from '../language/graph.ts';
import type { Standing } from './transition.ts';
import { nodeAt, scopeOf } from './walk.ts';

export interface AwaitedSignal {
  readonly type: string;
  readonly source: string;
  readonly data: Json;
}

/**
 * Whether a signal is the one that a branch waits for. One that its condition cannot judge is of
 * another shape than the one that was meant: anybody can send it, so it must not halt the branch.
 */
export function isAwaited(graph: Graph, standing: Standing, signal: AwaitedSignal): boolean {
  const node = nodeAt(graph, standing.node);
  if (node.kind !== 'wait' || node.signal === undefined) return false;
  const { type, from, when } = node.signal;
  if (type !== signal.type || (from !== undefined && from !== signal.source)) return false;
  if (when === undefined) return true;
  try {
    return evaluate(when, { ...scopeOf(standing), signal: signal.data });
  } catch (thrown) {
    if (thrown instanceof PipelineFault) return false;
    throw thrown;
  }
}

const TAKEN = 'signal ';

/** What is noted of a wait that a signal has ended. */
export function noteOfSignal(signalId: string): string {
  return `${TAKEN}${signalId}`;
}

/** The signal that has ended the wait of which this was noted. */
export function signalTakenIn(note: string | null): string | undefined {
  return note?.startsWith(TAKEN) === true ? note.slice(TAKEN.length) : undefined;
}
