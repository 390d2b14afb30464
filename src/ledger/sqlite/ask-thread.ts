import type { Worker } from 'node:worker_threads';

/** One question and its answer; whoever asks waits for that before the next one. */
export function askThread<T>(worker: Worker, question: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const onEnd = (error: unknown): void =>
      reject(error instanceof Error ? error : new Error('the thread beside the ledger has ended'));
    worker.once('error', onEnd);
    worker.once('exit', onEnd);
    worker.once('message', (answer: T) => {
      worker.off('error', onEnd);
      worker.off('exit', onEnd);
      resolve(answer);
    });
    worker.postMessage(question, []);
  });
}
