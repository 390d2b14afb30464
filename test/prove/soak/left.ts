/** The protocol between a server and its watcher: collect garbage, and report what is left. */
export const COLLECT = 'SIGUSR2';
/** In the directory of the server. */
export const LEFT_FILE = 'left.json';

export interface HeapReport {
  /** The number of collections so far. */
  readonly times: number;
  /** Objects, and what they hold outside of the heap. */
  readonly heapMib: number;
}
