import type { CliIo } from './host.ts';

const QUIET_MS = 500;
const STEP_MS = 100;
const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const CLEAR = '\r\u001b[K';

/** Lets a person at a terminal see that work which takes its time is going on. */
export async function withProgress<Result>(
  io: CliIo,
  label: string,
  work: () => Promise<Result>,
): Promise<Result> {
  if (!io.isErrTTY) return work();
  const begun = io.now();
  let step = 0;
  const timer = setInterval(() => {
    const ms = io.now() - begun;
    if (ms < QUIET_MS) return;
    const frame = frames[step % frames.length] ?? '';
    io.stderr.write(`${CLEAR}${frame} ${label} ${Math.floor(ms / 1000)}s`);
    step += 1;
  }, STEP_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    if (step > 0) io.stderr.write(CLEAR);
  }
}
