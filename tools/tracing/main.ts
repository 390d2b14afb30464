/**
 * Starts the real service and sends one piece of work of each kind through it. Prints the executed
 * files and functions in the order of their first call.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { formatPath, summarize, type PathSummary } from './report.ts';
import { TracedService } from './service.ts';

const { values } = parseArgs({
  options: { json: { type: 'boolean' }, functions: { type: 'boolean', short: 'f' } },
});

/** Long enough for periodic work of the service, such as heartbeats and checks. */
const IDLE_MS = 16_000;

const directory = await mkdtemp(join(tmpdir(), 'ductile-trace-'));
const service = await TracedService.start(directory);
try {
  const paths = await tracePaths();
  if (values.json === true) console.log(JSON.stringify(paths, null, 2));
  else for (const path of paths) console.log(formatPath(path, values.functions === true));
} finally {
  await service.stop();
  await rm(directory, { recursive: true });
}

async function tracePaths(): Promise<PathSummary[]> {
  const deliver = await service.createWebhook();
  const attempts = (): Promise<void> => service.waitForAttempts(2);
  // Run everything once first, so that loading and compiling on first use isn't recorded.
  await deliver();
  await service.runPipeline();
  await attempts();
  await service.quiet();
  const schedule = await service.record(attempts);
  await service.pauseSchedule();
  const idle = await service.record(() => service.quiet(IDLE_MS));
  const webhook = await service.record(deliver);
  const foreach = await service.record(() => service.runPipeline());
  return [
    summarize('A webhook delivery that waits for its result', webhook, idle),
    summarize('A schedule that fires, fails, is retried and ends dead', schedule, idle),
    summarize('A foreach over three items', foreach, idle),
  ];
}
