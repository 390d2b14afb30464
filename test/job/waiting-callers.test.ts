/** Callers that wait for the end of a job, and how the ledger registers them. */
import { expect, test, vi } from 'vitest';
import { ownerOf } from '../../src/operation/context.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { runPipeline } from '../../src/pipeline/run/start.operations.ts';
import { runPlugin } from '../../src/job/start.operations.ts';
import { databases, makePlace } from '../support/instance.ts';
import { notesJob } from '../support/plugin-program.ts';

test.each(databases)(
  'a waiting caller is stored with the jobs that it enqueues, on %s',
  async (database) => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: notesJob } },
      pipelines: [{ name: 'one', steps: [{ uses: 'worker.poll' }] }],
    });
    const { engine, ledger } = await place.start();
    const awaitEnd = vi.spyOn(ledger, 'awaitEnd');
    const context = { engine, principal: ownerOf('api:test'), submittedBy: 'api' } as const;
    const request = { plugin: 'worker', command: 'poll' };
    const waited = await invoke(runPlugin, context, { ...request, wait: '10s' });
    const job = await ledger.jobs.find(String(waited['job_id']));
    expect(job).toMatchObject({ status: 'succeeded', awaitedBy: ledger.listener });
    const answer = await invoke(runPipeline, context, { pipeline: 'one', wait: '10s' });
    const run = await ledger.runs.find(String(answer['run_id']));
    expect(run).toMatchObject({ status: 'succeeded', awaitedBy: ledger.listener });
    expect(awaitEnd).not.toHaveBeenCalled();
    const unwaited = await invoke(runPlugin, context, request);
    expect(await ledger.jobs.find(String(unwaited['job_id']))).toMatchObject({ awaitedBy: null });
  },
);
