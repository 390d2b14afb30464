/**
 * Records which functions V8 calls. The service loads this file before its own code. Counts have no
 * order, so they are read at each turn of the event loop to find the turn of a function's first call.
 */
import { Session } from 'node:inspector';

export interface RecordedFunction {
  readonly url: string;
  readonly name: string;
  /** Offset in its file, which distinguishes functions without a name. */
  readonly offset: number;
  calls: number;
  /** The turn of the event loop in which it was called first. */
  readonly turn: number;
}

export type RecorderRequest = 'begin' | 'end';

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
    }[];
  }[];
}

const SOURCES = '/src/';
const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

let recorded = new Map<string, RecordedFunction>();
let turn = 0;
let isRecording = false;

process.on('message', (request: RecorderRequest) => {
  if (request === 'begin') {
    takeCounts();
    recorded = new Map();
    turn = 0;
    isRecording = true;
    recordTurns();
    process.send?.('begun');
  } else {
    takeCounts();
    isRecording = false;
    process.send?.([...recorded.values()]);
  }
});
// The channel to the parent must not keep the service from stopping.
process.channel?.unref();

function recordTurns(): void {
  if (!isRecording) return;
  turn += 1;
  takeCounts();
  setImmediate(recordTurns);
}

/** Adds the calls since the last read, which resets V8's counters. */
function takeCounts(): void {
  session.post('Profiler.takePreciseCoverage', (error, coverage: Coverage) => {
    if (error !== null) throw new Error(error.message);
    for (const { url, functions } of coverage.result) {
      if (!url.startsWith('file:') || !url.includes(SOURCES)) continue;
      for (const { functionName: name, ranges } of functions) {
        const [range] = ranges;
        if (range === undefined || range.count === 0) continue;
        const { startOffset: offset, count: calls } = range;
        const key = `${url} ${offset}`;
        const known = recorded.get(key);
        // Offset 0 is the body of the module, which runs when it is loaded.
        if (known === undefined && offset > 0)
          recorded.set(key, { url, name, offset, calls, turn });
        else if (known !== undefined) known.calls += calls;
      }
    }
  });
}
