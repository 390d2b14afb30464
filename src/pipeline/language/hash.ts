import { blake3 } from '../../base/blake3.ts';
import { canonical } from '../../base/json.ts';
import type { Graph } from './graph.ts';

/** Of all that decides what a run does: the same for the same, wherever and whenever it is made. */
export function hashGraph(graph: Omit<Graph, 'hash'>): string {
  return blake3(Buffer.from(canonical(graph)));
}
